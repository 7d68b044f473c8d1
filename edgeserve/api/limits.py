"""How much one request may bring, and the middleware that stops a body at its limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.errors import TooLarge

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, characters, pixels and seconds as named."""

    max_body_bytes: int = 32 * MB
    max_image_pixels: int = 40_000_000
    max_images: int = 8
    max_audio_seconds: float = 7200.0
    max_text_chars: int = 16_384
    max_choices: int = 8
    api_key: str = field(default="", repr=False)


class BodyLimit:
    """Counts the body as it comes in: a Content-Length may lie or be absent. Answers 413."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._limit:
            await failures.respond(self._error(int(declared)))(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise self._error(seen)
            return message

        await self._app(scope, counted, send)

    def _error(self, size: int) -> TooLarge:
        return TooLarge(
            f"the body has {'at least ' if size <= self._limit + MB else ''}{size / MB:.1f} MB; the limit is "
            f"{self._limit // MB} MB: send less, or raise max_body_mb in models.toml"
        )
