"""A WebSocket on one connection: Uvicorn's protocol with bounds on memory and work."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from edgeserve.api import failures
from edgeserve.api.admission import CUT_UNREAD
from edgeserve.errors import InvalidRequest
from edgeserve.protocols.bounded import EARLY_FRAMES, Bounded

MAX_FRAGMENTS = 1024
"""Frames of one message. Empty frames cost memory and count towards no size."""
CONTROL_FRAMES, CONTROL_RATE = 100, 10
"""Pings and pongs that a client may send at once, and each second. Each costs as much as a message."""
ANSWERS = ("websocket.accept", "websocket.http.response.start", "websocket.http.response.body")
"""Messages of the application that answer the handshake."""


class SocketConnection(Bounded, WebSocketsSansIOProtocol):
    """One WebSocket. The server reads nothing from a client that does not read, so that pongs cannot pile up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._full, self._controls = False, 0
        self._since = self.admitted.clock()
        super().connection_made(self.bound(transport))  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        self.admitted.remove(self)
        super().connection_lost(exc)

    @property
    def may_read(self) -> bool:
        return self.handshake_complete and not (self.read_paused or self._full)

    def idle(self, now: float) -> tuple[int, float] | None:
        return self.stalled(now)

    def check(self, now: float) -> None:
        self.check_reader(now)
        if not self.transport.is_closing() and not self.may_read and self.has_gone():
            self.transport.abort()  # else the server would work for minutes on frames that it sent before it left

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        failure = self.conn.handshake_exc
        if failure is not None and not self.handshake_initiated:
            self._refuse(str(failure))

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:
            self.scope[CUT_UNREAD] = self._cut_unread  # type: ignore[literal-required]  # the server's own
            self.transport.pause_reading()  # the library cannot refuse a frame before its answer to the handshake

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full = False
        if self.may_read:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await super().receive()
        if self._full:  # Uvicorn has just begun to read again
            self.transport.pause_reading()
        await asyncio.sleep(0)  # a queue that is not empty gives nobody else a turn
        return message

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(1009, f"a message in more than {MAX_FRAGMENTS} frames")
        else:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            self._fail(1007, "a text frame that is not UTF-8")  # Uvicorn would log it, and fail after a close frame
        else:
            super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        if self._may_control():
            super().handle_ping()

    def handle_pong(self, event: Any) -> None:
        if self._may_control():
            super().handle_pong(event)

    def _may_control(self) -> bool:
        self._controls += 1
        allowed = CONTROL_FRAMES + CONTROL_RATE * (self.admitted.clock() - self._since)
        if self._controls > allowed and not self.close_sent:
            self._fail(1008, f"more than {CONTROL_RATE} pings and pongs a second")
        return not self.close_sent

    def _fail(self, code: int, reason: str) -> None:
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    async def send(self, message: Any) -> None:
        if self.disconnected and message["type"] in ANSWERS:
            return  # it left before its answer: no mistake of the application, which the next message reports
        waited = not self.handshake_complete
        if waited and message["type"] == "websocket.accept" and self.has_unread():
            self._refuse_early()
            return
        if self.close_sent and message["type"] in ("websocket.send", "websocket.close") and not waited:
            raise ClientDisconnected  # closed for a wrong frame or a missing pong; Uvicorn takes it for our mistake
        await super().send(message)
        if waited and self.may_read and not self.transport.is_closing():
            self.transport.resume_reading()
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # refused; Uvicorn would log an error, as if nothing had been answered
        if message["type"] == "websocket.accept" and not self.handshake_complete:
            self.handshake_complete = self.disconnected = (
                True  # it left; Uvicorn would take the next message for a mistake of ours
            )

    def _cut_unread(self) -> None:
        if self._full:
            self.cut()

    def _refuse(self, why: str) -> None:
        """Answer an unreadable handshake and close. Uvicorn would leave the connection open without an answer."""
        self.handshake_initiated = self.handshake_complete = True
        told = b"".join(self.conn.data_to_send())
        self.transport.write(told or refusal(f"the WebSocket's handshake cannot be read: {why}"))
        self.transport.close()

    def _refuse_early(self) -> None:
        """Refuse a client that did not wait for the answer to its handshake; its application finds it gone."""
        self.handshake_complete = self.disconnected = True
        self.transport.write(refusal(EARLY_FRAMES))
        self.drop_unread()  # closing would else reset the connection, and the answer with it
        self.transport.close()


def refusal(why: str) -> bytes:
    """The answer 400 to a handshake."""
    body = json.dumps(failures.body(InvalidRequest(why)), ensure_ascii=False).encode()
    head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\nconnection: close\r\n\r\n" + body


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
