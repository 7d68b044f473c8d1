"""A WebSocket on one connection: Uvicorn's protocol with bounds on what a client makes us keep."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from edgeserve.api import failures
from edgeserve.bounded import Bounded
from edgeserve.errors import InvalidRequest

MAX_FRAGMENTS = 1024
"""Frames that one message may come in; empty ones cost memory and count towards no size."""


class SocketConnection(Bounded, WebSocketsSansIOProtocol):
    """While a client does not read what is written, the server reads nothing of it: pongs go to readers only."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._full = False
        self._since = self.admitted.clock()
        super().connection_made(self.bound(transport))  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        self.admitted.remove(self)
        super().connection_lost(exc)

    def idle(self, now: float) -> tuple[int, float] | None:
        return self.stalled(now)

    def check(self, now: float) -> None:
        self.check_reader(now)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        failure = self.conn.handshake_exc
        if failure is not None and not self.handshake_initiated:
            self._refuse(str(failure))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full = False
        if not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await super().receive()
        if self._full:  # Uvicorn has just begun to read again
            self.transport.pause_reading()
        return message

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(1009, f"a message in more than {MAX_FRAGMENTS} frames")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def _refuse(self, why: str) -> None:
        """The handshake cannot be read; Uvicorn would leave the connection open and say nothing."""
        self.handshake_initiated = self.handshake_complete = True
        answer = b"".join(self.conn.data_to_send())
        if not answer:
            error = InvalidRequest(f"the WebSocket's handshake cannot be read: {why}")
            body = json.dumps(failures.body(error), ensure_ascii=False).encode()
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
            answer = head.encode() + b"\r\nconnection: close\r\n\r\n" + body
        self.transport.write(answer)
        self.transport.close()
