"""Reads the pictures of one client beside the event loop, in this process or in children of their own."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Protocol

from starlette.datastructures import State
from starlette.requests import Request
from starlette.types import Receive

from edgeserve.api.limits import Limits
from edgeserve.api.presence import leashed
from edgeserve.errors import InvalidRequest, UnsupportedMedia
from edgeserve.jobs import PICTURES
from edgeserve.media.leash import Leash
from edgeserve.messages import ImagePart
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool

CHECKS = Aside("checks of pictures", threads=2)


class PictureFiles(Protocol):
    """Any thread may use it."""

    def read(self, data: bytes, limits: Limits, param: str, leash: Leash) -> ImagePart:
        """The picture in a file of any form (``image``), checked, and decoded where that is not the engine's work.

        Blocks for up to a second. Raises UnsupportedMedia, TooLarge for too many pixels, and Cancelled once ``leash``
        is cut. Raises Busy where all requests, or those of the current client, hold too many pictures.
        """
        ...

    def close(self) -> None:
        """End all children. Blocks for some seconds at most."""
        ...


class PictureFilesHere:
    """Checks on the threads of this process. The engine decodes the file, unless it cannot: ``still``."""

    def read(self, data: bytes, limits: Limits, param: str, leash: Leash) -> ImagePart:
        from edgeserve.api.pictures import still
        from edgeserve.api.pictures.image import check_image

        leash.check()
        promised = check_image(data, limits, param)
        found = still.decoded(data, limits, param)
        if found is None:
            return ImagePart(data, param, promised)
        width, height, pixels = found
        if width * height != promised:
            raise UnsupportedMedia(f"{param} is damaged: it decodes to {width}×{height} pixels", param=param)
        return ImagePart(pixels, param, promised, (width, height))

    def close(self) -> None:
        """There are no children."""


class Reader:
    """The pictures of one client. ``receive`` reports that the client leaves, which ends the work on them."""

    def __init__(self, state: State, receive: Receive) -> None:
        self._receive = receive
        self._limits: Limits = state.limits
        self._files: PictureFiles = state.picture_files
        self._pool: Pool = state.pool

    @classmethod
    def of(cls, request: Request) -> Reader:
        """For a request whose body was read."""
        return cls(request.app.state, request.receive)

    async def read(self, data: bytes, param: str = "image") -> ImagePart:
        """The picture in a file. Raises as ``PictureFiles.read`` does."""
        return await self._beside(lambda leash: self._read(data, param, leash))

    async def read_url(self, url: str, param: str) -> ImagePart:
        """The picture in a data URL. Raises InvalidRequest, too."""
        return await self._beside(lambda leash: self._read(_decoded(url, param), param, leash))

    async def _beside(self, read: Callable[[Leash], ImagePart]) -> ImagePart:
        self._pool.ahead.coming(PICTURES)
        return await leashed(self._receive, CHECKS, read)

    def _read(self, data: bytes, param: str, leash: Leash) -> ImagePart:
        return self._files.read(data, self._limits, param, leash)


def _decoded(url: str, param: str) -> bytes:
    head, _, text = url.partition(",")
    if not head.endswith(";base64"):
        raise InvalidRequest(f"{param}: expected data:image/png;base64,…", param=param)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # of binascii, and for characters beyond ASCII
        raise InvalidRequest(f"{param}: the data URL is not base64: {error}", param=param) from None
