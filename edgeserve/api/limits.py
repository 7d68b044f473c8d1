"""How much one request may bring, and the middleware that stops a body at its limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.errors import Busy, TooLarge

MB = 1 << 20
LARGEST_AT_ONCE = 4
"""Bodies of the largest size that may be in memory together."""
HOLD = "edgeserve.hold"
"""In a request's scope: counts bytes that are kept for it beside its body. Raises TooLarge and Busy as that does."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, characters, pixels and seconds as named.

    ``max_whole_text_chars``: of a text whose speech is answered as a whole, and so held: 50 MB. Streamed, no length
    takes more memory than another.
    """

    max_body_bytes: int = 32 * MB
    max_image_pixels: int = 20_000_000
    max_images: int = 8
    max_audio_seconds: float = 7200.0
    max_text_chars: int = 262_144
    max_whole_text_chars: int = 16_384
    max_choices: int = 8
    remote_images: bool = False
    remote_image_hosts: tuple[str, ...] = ()
    remote_seconds: float = 15.0
    api_key: str = field(default="", repr=False)


class BodyLimit:
    """Counts bodies as they come in: a Content-Length may lie or be absent.

    Answers 413 to one beyond ``limit`` bytes, and 503 while the bodies of all requests being served together would be
    beyond ``LARGEST_AT_ONCE`` times that.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._limit:
            await failures.respond(self._error(int(declared)))(scope, receive, send)
            return
        seen = 0

        def hold(size: int) -> None:
            nonlocal seen
            seen += size
            self._held += size
            if seen > self._limit:
                raise self._error(seen)
            if self._held > LARGEST_AT_ONCE * self._limit:
                text = (
                    f"the requests being served hold {self._held / MB:.0f} MB of bodies; try again when some are done"
                )
                raise Busy(text, retry_after=2)

        async def counted() -> Message:
            message = await receive()
            hold(len(message.get("body", b"")))
            return message

        scope[HOLD] = hold
        try:
            await self._app(scope, counted, send)
        finally:
            self._held -= seen

    def _error(self, size: int) -> TooLarge:
        more = "at least " if size <= self._limit + MB else ""
        return TooLarge(
            f"the body (with what is fetched for it) has {more}{size / MB:.1f} MB; the limit is "
            f"{self._limit // MB} MB: send less, or raise max_body_mb in models.toml"
        )
