"""WebP files (RFC 9649). The check walks the chunks and compares the dimensions that they promise."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from edgeserve.api.pictures.file import Damaged, Head

SIGNATURE = b"RIFF"
KIND = b"WEBP"
LOSSY, LOSSLESS, EXTENDED, ANIMATION = b"VP8 ", b"VP8L", b"VP8X", b"ANIM"
START = b"\x9d\x01\x2a"
"""Start code of a key frame (RFC 6386, section 9.1)."""
LOSSLESS_MARK = 0x2F
MAX_CHUNKS = 1024
"""Chunks of one file. A still picture has at most eight kinds of them."""
ALPHA = b"ALPH"
PLANES = {LOSSY: 2.0, LOSSLESS: 6.0, ALPHA: 5.0}
"""Bytes a pixel that the decoder's frame takes at any size of the result: 1.6, 4.1 and 5.0 were measured. The alpha of
a lossy picture is a lossless picture beside it."""
RESULT = 6.0
"""Bytes a pixel of the result: RGB, and a copy of it."""


def read_head(data: bytes) -> Head:
    """Raises Damaged, also for an animation."""
    if data[8:12] != KIND:
        raise Damaged("its RIFF file is no WebP")
    listed = list(_chunks(data))
    if sum(kind in (LOSSY, LOSSLESS) for kind, _ in listed) > 1:  # FFmpeg decodes the first
        raise Damaged("it has more than one picture")
    chunks = dict(listed)
    if ANIMATION in chunks:
        raise Damaged("it is an animation; send one picture")
    kind = next((one for one in (LOSSY, LOSSLESS) if one in chunks), None)
    if kind is None:
        raise Damaged("it has no picture")
    width, height = _lossy(data, chunks[kind]) if kind == LOSSY else _lossless(data, chunks[kind])
    if EXTENDED in chunks and _canvas(data, chunks[EXTENDED]) != (width, height):
        raise Damaged("its picture has other dimensions than its canvas")
    planes = PLANES[kind] + (PLANES[ALPHA] if ALPHA in chunks else 0)
    return Head(width, height, planes + RESULT, planes)


def check(data: bytes, head: Head) -> None:
    """The chunks were walked for the head. A row of codes takes no more work than its pixels."""


def _chunks(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The kind of each chunk and the place of its contents. Raises Damaged for chunks that lead nowhere."""
    at = 12
    for _ in range(MAX_CHUNKS):
        if at == len(data):
            return
        if at + 8 > len(data):
            raise Damaged("it is cut off")
        kind, (size,) = data[at : at + 4], struct.unpack_from("<I", data, at + 4)
        if at + 8 + size > len(data):
            raise Damaged("it is cut off")
        yield kind, at + 8
        at = min(len(data), at + 8 + size + size % 2)
    raise Damaged(f"it has more than {MAX_CHUNKS} chunks")


def _lossy(data: bytes, at: int) -> tuple[int, int]:
    if data[at + 3 : at + 6] != START or data[at] & 1 or at + 10 > len(data):
        raise Damaged("its picture does not begin with a key frame")
    width, height = struct.unpack_from("<HH", data, at + 6)
    return width & 0x3FFF, height & 0x3FFF


def _lossless(data: bytes, at: int) -> tuple[int, int]:
    if at + 5 > len(data) or data[at] != LOSSLESS_MARK:
        raise Damaged("its lossless picture does not begin with its mark")
    (bits,) = struct.unpack_from("<I", data, at + 1)
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1


def _canvas(data: bytes, at: int) -> tuple[int, int]:
    size = data[at + 4 : at + 10].ljust(6, b"\0")
    return int.from_bytes(size[:3], "little") + 1, int.from_bytes(size[3:], "little") + 1
