"""Pictures of one request, from data URLs, parts of its multipart body, and addresses."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from edgeserve.api.fields import NAME_CHARS, clipped
from edgeserve.api.limits import HOLD, limits_of
from edgeserve.api.pictures.reader import Reader
from edgeserve.api.pictures.remote import Remote
from edgeserve.errors import InvalidRequest, TooLarge
from edgeserve.messages import ImagePart

ATTACHMENT = "attachment:"
"""Prefix of an address that names a part of the body."""
TOGETHER = 3
"""Largest pictures that one request may bring. The engine decodes them together, with three bytes a pixel."""


class Pictures:
    """Reads the pictures. ``attached`` holds the body's files by name."""

    def __init__(self, request: Request, attached: Mapping[str, bytes] | None = None) -> None:
        self._limits = limits_of(request)
        self._reader = Reader.of(request)
        self._attached = attached or {}
        self._used: set[str] = set()
        self._pixels = 0
        self._remote = Remote(self._limits, request.scope[HOLD])

    async def read(self, url: str, param: str) -> ImagePart:
        """A checked picture. Raises InvalidRequest and its kinds, which name ``param``."""
        return self._counted(await self._read(url, param), param)

    async def read_file(self, data: bytes, param: str) -> ImagePart:
        """The checked picture in a file. Raises as ``read`` does."""
        return self._counted(await self._reader.read(data, param), param)

    def _counted(self, picture: ImagePart, param: str) -> ImagePart:
        """The picture, whose pixels count. Raises TooLarge."""
        self._pixels += picture.pixels
        if self._pixels > (most := TOGETHER * self._limits.max_image_pixels):
            raise TooLarge(
                f"{param}: the images of this request have more than {most / 1e6:.0f} million pixels together: send "
                "fewer or smaller ones",
                param=param,
            )
        return picture

    async def _read(self, url: str, param: str) -> ImagePart:
        if url.startswith("data:"):
            return await self._reader.read_url(url, param)
        if url.startswith(ATTACHMENT):
            return await self._reader.read(self.part(url.removeprefix(ATTACHMENT), param), param)
        return await self._reader.read(await self._remote.fetch(url, param), param)

    def check_used(self) -> None:
        """Raises InvalidRequest for a part that no address names, most likely a misspelled name."""
        if unused := sorted(set(self._attached) - self._used):
            text = f"the part {unused[0]!r} belongs to no part of a message; write its url as {ATTACHMENT}{unused[0]}"
            raise InvalidRequest(text, param=unused[0])

    def part(self, name: str, param: str) -> bytes:
        """A file of the body. Raises InvalidRequest for one that is not there."""
        if name not in self._attached:
            there = f"there are: {', '.join(self._attached)}" if self._attached else "there are none"
            raise InvalidRequest(
                f"{param}: the body has no file part named {clipped(name, NAME_CHARS)!r}; {there}", param=param
            )
        self._used.add(name)
        return self._attached[name]
