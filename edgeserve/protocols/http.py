"""HTTP/1.1 on one connection: Uvicorn's protocol with deadlines, strict request heads, and bounds both ways."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http
import json
from collections.abc import Awaitable
from typing import Any

import h11
from starlette.types import Message, Receive, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgeserve.api import failures
from edgeserve.api.presence import HANG_UP
from edgeserve.errors import Busy, EdgeserveError, InvalidRequest, RequestTimeout, ShuttingDown
from edgeserve.protocols import head
from edgeserve.protocols.bounded import EARLY_FRAMES, WRITE_BYTES, Bounded

BODY_PAUSE_SECONDS = 1.0
"""Seconds without bytes after which a body gives its place to a new connection where places are short."""
FREE_FRAMING, MOST_FRAMING = 32 << 10, 1.25
"""Framing of a chunked body: these bytes, and 1.25 times its size. Chunks of 24 bytes or more always pass."""


class HttpConnection(Bounded, H11Protocol):
    """One HTTP connection. ``_since`` is the time at which the wait for the client's next bytes began.

    A lost connection keeps its place until its last request has ended. A request holds memory, and a client that asks
    and leaves would have any number of them.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.app = functools.partial(self._serve, self.app)
        self._requests = 0
        self._since = self.admitted.clock()
        self._proven = self._closed = self._lost = self._completing = False
        self._lingering: float | None = None
        self._framing = 0.0

    # State of the connection

    @property
    def _body_left(self) -> int:
        """Bytes to come of a body of known length; 0 for any other."""
        reader = self.conn._reader if self.conn.their_state is h11.SEND_BODY else None
        return getattr(reader, "_remaining", 0)

    @property
    def _awaits_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _has_part(self) -> bool:
        """Whether part of a head has come."""
        return bool(self.conn.trailing_data[0])

    @property
    def may_read(self) -> bool:
        return not self.flow.read_paused

    @property
    def _reads_nothing(self) -> bool:
        """Whether the client's end may wait unread. Above TLS nothing is read from a client that does not read."""
        return self.flow.read_paused or self.flow.write_paused

    def idle(self, now: float) -> tuple[int, float] | None:
        """The order in which connections give way, and since when; None for a busy connection.

        0. connections that never sent a request, or that are closed
        1. connections that wait for another request
        2. bodies that pause
        3. clients that do not read
        """
        if self._lost:
            return None
        if self._lingering is not None or self._closed:
            return 0, self._since
        if self._awaits_head:
            return int(self._proven and not self._has_part), self._since
        if self.cycle.more_body and not self.flow.read_paused and now - self._since >= BODY_PAUSE_SECONDS:
            return 2, self._since
        return self.stalled(now)

    def has_asked(self) -> bool:
        waits = self._awaits_head and self._lingering is None and not self._closed
        return waits and (self._reading.holds(self) or self.has_unread())

    def check(self, now: float) -> None:
        self.check_reader(now)
        if self.transport.is_closing():
            return
        if self._lingering is not None and now >= self._lingering:
            self.transport.abort()
        elif self._reads_nothing and not self._awaits_head and self.has_gone():
            self.transport.abort()  # else its work would continue: it sent more than its request before it left
        elif self._closed or not self._awaits_head or now - self._since < self.patience.head:
            return
        elif self._has_part:
            text = f"the request's head is not complete {self.patience.head:g} s after its first byte: send it at once"
            self._refuse(408, RequestTimeout(text))
        elif not self._proven:
            self.transport.close()

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(self.bound(transport))  # type: ignore[arg-type]
        if not self.admitted.admit(self):
            text = f"{len(self.admitted)} connections are open, and this server takes no more of yours now"
            self._refuse(503, Busy(f"{text}; close some, or raise max_connections in models.toml", retry_after=2))
            self.transport.close()

    def stop_reading(self) -> None:
        self._unset_keepalive_if_required()  # the next request has come
        super().stop_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost, self.app = True, self.config.loaded_app  # nothing keeps itself in memory
        self._give_place()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        if not data:  # a pipelined request, which came before
            self.handle_events()
            return
        if not (self._awaits_head and self._has_part):  # a head's deadline counts from its first byte
            self._since = self.admitted.clock()
        if self._lingering is None:
            cycle, before = self.cycle, self._held
            super().data_received(data)
            if self.cycle is cycle:
                self._weigh(len(data), self._held - before)
            else:
                self._framing = 0.0  # another request has begun
        else:
            self.conn.receive_data(data)
            self._discard()

    @property
    def _held(self) -> int:
        """Bytes of the body that the application has not taken yet."""
        return 0 if self.cycle is None else len(self.cycle.body)

    def _weigh(self, sent: int, body: int) -> None:
        """Refuse a body whose framing outweighs it, since each chunk costs the same work."""
        if self._closed or self.plain or self.conn.their_state is not h11.SEND_BODY:
            self._framing = 0.0
            return
        self._framing = max(0.0, self._framing + sent - MOST_FRAMING * body)
        if self._framing > FREE_FRAMING:
            self._refuse(400, InvalidRequest("the chunks of the body are too small: send some kilobytes in each"))

    # Uvicorn calls these

    def handle_events(self) -> None:
        if self._completing:
            return
        if self.conn.their_state is h11.IDLE and (found := head.fault(self.conn.trailing_data[0])):
            self._refuse(found[0], InvalidRequest(found[1]))
            return
        before = self.cycle
        super().handle_events()
        self._requests += self.cycle is not before
        self.plain = self._body_left

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if self.conn.trailing_data[0]:  # Uvicorn would drop these bytes, and take later ones for a beginning
            self._refuse(400, InvalidRequest(EARLY_FRAMES))
            return
        super().handle_websocket_upgrade(event)
        self.admitted.replace(self, self.transport.get_protocol())

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, InvalidRequest("this is no valid HTTP request"))

    def on_response_complete(self) -> None:
        self._proven, self._since = True, self.admitted.clock()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            # Closing now would reset the connection, and the answer with it, while the client still sends.
            self._lingering = self._since + self.patience.linger
            self.flow.resume_reading()
            self._discard()
        else:
            self._complete()

    def _complete(self) -> None:
        """Be ready for the next request. One that has come takes its turn, as if it came now."""
        self._completing = True
        super().on_response_complete()
        self._completing = False
        if self._has_part and not self.transport.is_closing():
            self._reading.take(self, b"")

    # Endings

    async def _serve(self, app: Any, scope: Any, receive: Receive, send: Send) -> None:
        scope[HANG_UP] = self._hang_up
        try:
            await app(scope, receive, functools.partial(_in_pieces, send))
        finally:
            self._requests -= 1
            self._give_place()

    def shutdown(self) -> None:
        """End with the server. h11 knows of no refusal, and would wait for the answer to a handshake."""
        if self._closed:
            self.transport.close()
        else:
            super().shutdown()

    def cut_at_end(self) -> None:
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_started and not self._closed:
            self._refuse(503, ShuttingDown("the server is shutting down", retry_after=5))
            self.drop_unread()  # closing would else reset the connection, and the answer with it
        self.cut()

    def _hang_up(self) -> None:
        """Close the connection behind what was written. Uvicorn then misses no end of the answer."""
        self.cycle.disconnected = True
        self.transport.close()

    def _give_place(self) -> None:
        if self._lost and not self._requests:
            self.admitted.remove(self)

    def _discard(self) -> None:
        """Read to the end of a body without use."""
        try:
            while (event := self.conn.next_event()) is not h11.NEED_DATA:
                self.plain = self._body_left
                if isinstance(event, h11.EndOfMessage):
                    self._lingering = None
                    self._complete()
                    return
        except h11.RemoteProtocolError:
            self.transport.abort()

    def _refuse(self, status: int, error: EdgeserveError) -> None:
        """Answer with an error where no answer has begun, and close."""
        self._closed, self._since = True, self.admitted.clock()
        self._unset_keepalive_if_required()
        waiting = self.cycle is not None and not self.cycle.response_complete
        if waiting and self.cycle.response_started:
            self.transport.abort()
            return
        body = json.dumps(failures.body(error), ensure_ascii=False).encode()
        headers = {"content-type": "application/json", "content-length": len(body), "connection": "close"}
        if error.retry_after is not None:
            headers["retry-after"] = int(error.retry_after)
        lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}", *(f"{n}: {v}" for n, v in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        if waiting:  # the application hears that its client has gone
            self.cycle.disconnected, self.cycle.waiting_for_100_continue = True, False
            self.cycle.message_event.set()
        self._lingering = self._since + self.patience.linger
        self.flow.resume_reading()
        if self.transport.can_write_eof():  # TLS knows no half of a connection
            with contextlib.suppress(OSError):  # it has left meanwhile
                self.transport.write_eof()


def _in_pieces(send: Send, message: Message) -> Awaitable[None]:
    """Send a large body piece by piece. Uvicorn waits for a slow client before each, but takes any size at once.

    No coroutine of its own where one piece does: a stream sends one for each token.
    """
    return send(message) if len(message.get("body", b"")) <= WRITE_BYTES else _send_pieces(send, message)


async def _send_pieces(send: Send, message: Message) -> None:
    body = message["body"]
    last = (len(body) - 1) // WRITE_BYTES * WRITE_BYTES
    for start in range(0, last, WRITE_BYTES):
        await send({**message, "body": body[start : start + WRITE_BYTES], "more_body": True})
    await send({**message, "body": body[last:]})
