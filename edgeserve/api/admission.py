"""The right of an open connection to stay open: it ends with its key, and without one when the first key comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from starlette.types import Message, Receive, Scope, Send

from edgeserve.keys.key import Key
from edgeserve.keys.ring import Keyring

ADMISSION = "edgeserve.admission"
"""Key in a request's scope: its ``Admission``."""
CUT_UNREAD = "edgeserve.cut_unread"
"""Key in a WebSocket's scope: a function that cuts the connection if its client does not read."""
REVOKED = 1008
"""Close code of a WebSocket: a violation of policy (RFC 6455, 7.4.1)."""


class Admission:
    """The admission of one request. ``key``: the key that came with the request; None where none was required."""

    def __init__(self, ring: Keyring, key: Key | None = None) -> None:
        self._ring = ring
        self._key = key

    @property
    def over(self) -> str:
        """Why the admission has ended; empty while it lasts."""
        if self._key is None:
            return "the server requires a key by now: connect again with one" if self._ring.required else ""
        return "" if self._ring.has(self._key) else "the key was revoked"


@contextlib.contextmanager
def guarded(
    ring: Keyring, key: Key | None, scope: Scope, receive: Receive, send: Send
) -> Iterator[tuple[Receive, Send]]:
    """Both directions of a request. A WebSocket is closed when its admission ends, also while its client is silent.

    A stream of events asks the ``Admission`` in its scope itself.
    """
    admission = scope[ADMISSION] = Admission(ring, key)
    if scope["type"] != "websocket":
        yield receive, send
        return
    guard = Guard(ring, admission, receive, send, scope.get(CUT_UNREAD, lambda: None))
    try:
        with ring.listening(guard.look):
            yield guard.receive, guard.send
    finally:
        guard.end()


class Guard:
    """Both directions of a WebSocket, for as long as its admission lasts. One event loop.

    ``cut_unread`` cuts the connection of a client that does not read: no message could reach such a client.
    """

    def __init__(
        self, ring: Keyring, admission: Admission, receive: Receive, send: Send, cut_unread: Callable[[], None]
    ) -> None:
        self._ring = ring
        self._admission = admission
        self._receive, self._send = receive, send
        self._cut_unread = cut_unread
        self._coming: asyncio.Future[Message] | None = None
        self._over = asyncio.Event()
        self._opening = True
        self._closed = False

    def look(self) -> None:
        """Notice that the keys have changed."""
        if self._admission.over:
            self._over.set()
            self._cut_unread()

    async def receive(self) -> Message:
        """The next message. Once the admission has ended, the connection is closed, and this is its end."""
        if self._opening:
            self._opening = False
            return await self._receive()  # websocket.connect, which must come first
        message = await self._next()
        self._ring.look()  # a key may have been revoked since the last look, and this message comes after it
        if not self._over.is_set() or (message is not None and message["type"] != "websocket.receive"):
            return message or {"type": "websocket.disconnect", "code": REVOKED}
        if not self._closed:
            self._closed = True
            await self._send({"type": "websocket.close", "code": REVOKED, "reason": self._admission.over})
        return {"type": "websocket.disconnect", "code": REVOKED}

    async def _next(self) -> Message | None:
        """The next message; None where the admission ends first. A wait that is cancelled loses no message."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._receive())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((self._coming, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
        if not self._coming.done():
            return None
        coming, self._coming = self._coming, None
        return coming.result()

    async def send(self, message: Message) -> None:
        """Send a message; none behind the close of this guard, and no answer once the admission has ended."""
        ended = self._over.is_set() and message["type"] == "websocket.send"
        if not (self._closed or ended):
            await self._send(message)

    def end(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
