"""Pictures of a request: taken from data URLs and uploads, their dimensions checked before anything decodes them."""

from __future__ import annotations

import base64
import binascii
import re
import struct

from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.messages import ImagePart

MAX_SEGMENTS = 4096
"""Of a JPEG file before its frame header: a colour profile takes 255 at most, so this is ample."""
FILL = re.compile(rb"\xff+")
"""A marker's first byte, which any number of its like may precede (ITU T.81, B.1.1.2)."""


def check_image(data: bytes, limits: Limits, param: str = "image") -> ImagePart:
    """PNG, JPEG, GIF or BMP bytes. Raises UnsupportedMedia, and TooLarge for more pixels than the limit."""
    if not data:
        raise UnsupportedMedia(f"{param} is empty", param=param)
    size = _dimensions(data)
    if size is None:
        raise UnsupportedMedia(f"{param} is neither PNG, JPEG, GIF nor BMP (it begins with {data[:4]!r})", param=param)
    width, height = size
    if not width or not height:
        raise UnsupportedMedia(f"{param} is damaged or has no pixels ({width}×{height})", param=param)
    if width * height > limits.max_image_pixels:
        raise TooLarge(
            f"{param} is {width}×{height}, {width * height / 1e6:.0f} million pixels; the limit is "
            f"{limits.max_image_pixels / 1e6:.0f} million: send it smaller",
            param=param,
        )
    return ImagePart(data)


def from_data_url(url: str, limits: Limits, param: str) -> ImagePart:
    """The picture in it. Raises InvalidRequest, and what ``check_image`` does."""
    head, _, text = url.partition(",")
    if not head.endswith(";base64"):
        raise InvalidRequest(f"{param}: expected data:image/png;base64,…", param=param)
    try:
        return check_image(base64.b64decode(text, validate=True), limits, param)
    except binascii.Error as error:
        raise InvalidRequest(f"{param}: the data URL is not base64: {error}", param=param) from None


def _dimensions(data: bytes) -> tuple[int, int] | None:
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            # Some decoders skip another chunk in its place, so what stands there need not be the dimensions.
            return struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else (0, 0)
        if data[:3] == b"GIF":
            return struct.unpack_from("<HH", data, 6)
        if data[:2] == b"BM":
            if data[14:18] == b"\x0c\0\0\0":  # OS/2's short header
                return struct.unpack_from("<HH", data, 18)
            width, height = struct.unpack_from("<ii", data, 18)
            return abs(width), abs(height)
        if data[:2] == b"\xff\xd8":
            return _jpeg(data)
    except struct.error:
        return (0, 0)
    return None


def _jpeg(data: bytes) -> tuple[int, int]:
    """Walks the segments to the frame header (SOF0 to SOF15, ITU T.81 table B.1)."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        fill = FILL.match(data, at)
        if fill is None:
            break
        at = fill.end() - 1
        marker, length = struct.unpack_from(">HH", data, at)
        if 0xFFC0 <= marker <= 0xFFCF and marker not in (0xFFC4, 0xFFC8, 0xFFCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return (0, 0)
