"""Limits on a request, and the middleware that stops a body at its limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Literal

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.api.auth import client_of
from edgeserve.api.bodies import Bodies
from edgeserve.dataclass import dataclass
from edgeserve.memory.traffic import Own, Traffic, own
from edgeserve.units import MB

HOLD = "edgeserve.hold"
"""Key in a request's scope: a function that counts bytes beside the body. Raises TooLarge and Busy."""
PARSE = "edgeserve.parse"
"""Key in a request's scope: a function that counts the bytes of the values in its body. Raises Busy."""
MAX_IMAGE_PIXELS, PIXEL_MEMORY = 20_000_000, 256
"""Pixels of a picture, and bytes of the machine's memory for each of them.

A decoder takes 8 bytes a pixel (docs/decisions/0018). So one never takes more than 1/32 of a small machine.
"""


MAX_BODY_MB, BODY_MEMORY = 32, 32
"""MB of the largest body by default, and bytes of the machine's memory for each byte of it.

Four bodies may be here at once, and a recording takes its size twice or thrice: once more for its decoder.
"""


def max_body(memory: int) -> int:
    """Bytes of the largest body on a machine of so many bytes: whole MB, at least one."""
    return max(1, min(MAX_BODY_MB, memory // BODY_MEMORY // MB)) * MB


def max_pixels(memory: int) -> int:
    """Pixels of the largest picture on a machine of so many bytes."""
    return min(MAX_IMAGE_PIXELS, memory // PIXEL_MEMORY)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in the unit that each name ends with.

    ``max_whole_text_chars`` bounds a text whose speech is answered as a whole: the server holds the sound, up to 50 MB.
    Streamed speech of any length takes the same memory.
    """

    max_body_bytes: int = MAX_BODY_MB * MB
    max_json_bytes: int = 16 * MB
    body_seconds: float = 20.0
    max_image_pixels: int = MAX_IMAGE_PIXELS
    max_images: int = 8
    max_audio_seconds: float = 7200.0
    max_text_chars: int = 262_144
    max_whole_text_chars: int = 16_384
    max_choices: int = 8
    remote_images: bool = False
    remote_image_hosts: tuple[str, ...] = ()
    remote_seconds: float = 15.0
    unknown_fields: Literal["ignore", "refuse"] = "ignore"


def limits_of(request: Request) -> Limits:
    """The limits of the server that the request came to."""
    limits: Limits = request.app.state.limits
    return limits


class BodyLimit:
    """Counts the bytes of bodies as they arrive, since a Content-Length may lie or be absent. Its answers:

    - 413 to a body beyond ``limit`` bytes
    - 408 to a body of which nothing arrives for ``patience`` seconds, or that arrives too slowly
    - 503 to the slowest body while all bodies together are too large, or while a request has waited for its memory
    """

    def __init__(self, app: ASGIApp, limit: int, patience: float = 20.0, traffic: Traffic | None = None) -> None:
        self._app = app
        self._bodies = Bodies(limit, patience, traffic=traffic)
        self._loop: asyncio.AbstractEventLoop | None = None
        if traffic is not None:
            traffic.ease = self._ease

    def _ease(self, missing: int) -> None:
        """As ``Bodies.ease``, on the event loop. Any thread, also one whose wake-ups are held back as it waits."""
        with contextlib.suppress(RuntimeError):  # a closed loop has no bodies
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._bodies.ease, missing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            with _owning(Own()):
                await self._app(scope, receive, send)
            return
        self._loop = asyncio.get_running_loop()
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._bodies.limit:
            refused = failures.respond(self._bodies.too_large(int(declared)), scope["path"])
            await refused(scope, receive, send)
            return
        body = self._bodies.open(client_of(scope))

        async def counted() -> Message:
            return await body.next(receive)

        scope[HOLD], scope[PARSE] = body.hold, body.parse
        try:
            with _owning(Own(lambda: self._bodies.held(body))):  # tasks of a live session outlive the request
                await self._app(scope, counted, send)
        finally:
            self._bodies.close(body)


@contextlib.contextmanager
def _owning(mine: Own) -> Iterator[None]:
    """Name the bytes of the request for all code that serves it."""
    token = own.set(mine)
    try:
        yield
    finally:
        own.reset(token)
