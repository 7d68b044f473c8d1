"""Bodies that arrive compressed (RFC 9110, Content-Encoding), within the limits of bodies."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.api.limits import HOLD
from edgeserve.api.origin import values
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.residency.aside import Aside
from edgeserve.units import MB

CODINGS = ("gzip", "x-gzip", "deflate")
DETECTED = 32 + zlib.MAX_WBITS
"""zlib reads both headers, that of gzip and its own."""
PIECE = 64 << 10
"""Bytes that are inflated in one step."""
RATIO = 100
"""Times its size that a body may inflate to, beyond the first ``FREE`` bytes. Text shrinks to a tenth, no further."""
FREE = MB
REPLACED = (b"content-encoding", b"content-length")
INFLATES = Aside("the inflating of bodies", threads=2, most=1 << 16)
"""Clients take turns, piece by piece. No body under way is refused: each has one piece here at a time."""


class Inflate:
    """Inflates bodies on a thread, piece by piece. Its answers:

    - 415 to a coding that is not one of ``CODINGS``, and to several
    - 413 to a body beyond ``RATIO``, and as ``BodyLimit``, which counts the inflated bytes, too
    - 400 to damaged data
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        codings = codings_of(scope) if scope["type"] == "http" else []
        if not codings:
            await self._app(scope, receive, send)
        elif len(codings) > 1 or codings[0] not in CODINGS:
            known = ", ".join((CODINGS[0], CODINGS[2]))
            text = f"a body with Content-Encoding {', '.join(codings)[:100]!r} cannot be read; send {known} or none"
            await failures.respond(UnsupportedMedia(text))(scope, receive, send)
        else:
            headers = [pair for pair in scope["headers"] if pair[0] not in REPLACED]
            await self._app({**scope, "headers": headers}, Inflated(receive, scope[HOLD]).next, send)


def codings_of(scope: Scope) -> list[str]:
    """The codings of a body, in small letters."""
    given = [one.strip().lower() for value in values(scope, b"content-encoding") for one in value.split(",")]
    return [one for one in given if one not in ("", "identity")]


class Inflated:
    """The inflated messages of a compressed body. ``hold`` counts their bytes, and raises TooLarge and Busy."""

    def __init__(self, receive: Receive, hold: Callable[[int], None]) -> None:
        self._receive = receive
        self._hold = hold
        self._inflater = zlib.decompressobj(DETECTED)
        self._rest = b""
        self._came = self._made = 0
        self._more = True
        self._full = self._ended = False

    async def next(self) -> Message:
        """The next message. Raises InvalidRequest, TooLarge, and what ``receive`` and ``hold`` raise."""
        while not self._ended:
            if self._more and not (self._rest or self._full):
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                self._rest, self._more = message.get("body", b""), message.get("more_body", False)
                self._came += len(self._rest)
            data = await INFLATES.run(self._inflate) if self._rest or self._full else b""
            self._count(len(data))
            self._ended = not (self._more or self._rest or self._full)
            if self._ended and not self._inflater.eof:
                raise InvalidRequest("the body cannot be read: it ends before its compressed data do")
            if data or self._ended:
                return {"type": "http.request", "body": data, "more_body": not self._ended}
        return await self._receive()  # nothing but the client's leaving can come

    def _inflate(self) -> bytes:
        """At most one piece. ``_full``: zlib may hold more, although it has read all that came."""
        if self._inflater.eof:
            raise InvalidRequest("the body cannot be read: something follows its compressed data")
        try:
            data = self._inflater.decompress(self._rest, PIECE)
        except zlib.error as error:
            raise InvalidRequest(f"the body cannot be read: its compressed data are damaged ({error})") from None
        self._rest = self._inflater.unconsumed_tail or self._inflater.unused_data
        self._full = len(data) == PIECE and not self._inflater.eof
        return data

    def _count(self, size: int) -> None:
        self._made += size
        if self._made > FREE + RATIO * self._came:
            text = f"the body of {self._came:,} bytes inflates to more than {RATIO} times its size"
            raise TooLarge(f"{text}, of which the first {FREE // MB} MB are free: send it without Content-Encoding")
        self._hold(size)
