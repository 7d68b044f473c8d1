"""GIF files (89a): the codes of the first picture, the only one that is decoded, are counted before a decoder does."""

from __future__ import annotations

import struct

from edgeserve.api.pictures.file import Damaged, Head

KINDS = (b"GIF87a", b"GIF89a")
PICTURE, EXTENSION = 0x2C, 0x21
MAX_CODES = 3 << 20
"""In one picture; they are followed here one by one, some two million in a second. A photograph of a megapixel has
half a million."""
TABLE = 4096
"""Different codes that there can be, of 12 bits."""


def read_head(data: bytes) -> Head:
    """Raises Damaged."""
    if data[:6] not in KINDS or len(data) < 13:
        raise Damaged("its header is none of GIF87a and GIF89a")
    width, height = struct.unpack_from("<HH", data, 6)
    return Head(width, height, 9)


def check(data: bytes, head: Head) -> None:
    """Raises Damaged. The decoder takes a step for each pixel that the codes stand for, also beyond the last row: a
    megabyte can stand for two thousand million."""
    try:
        pixels, smallest, codes = _first_picture(data, head)
    except IndexError:
        raise Damaged("it is cut off") from None
    _count(codes, smallest, pixels)


def _first_picture(data: bytes, head: Head) -> tuple[int, int, bytes]:
    """Its pixels, bits of its smallest code, and codes."""
    at = 13 + _colours(data[10])
    while (kind := data[at]) == EXTENSION:
        at = _blocks(data, at + 2)[0]
    if kind != PICTURE:
        raise Damaged("it holds no picture")
    left, top, width, height, flags = struct.unpack_from("<HHHHB", data[at + 1 : at + 10].ljust(9, b"\0"))
    if not width or not height or left + width > head.width or top + height > head.height:
        raise Damaged("its picture does not lie within it")
    if not (flags | data[10]) & 0x80:
        raise Damaged("it has no colours")
    at += 10 + _colours(flags)
    if not 1 <= data[at] <= 11:
        raise Damaged(f"its codes begin with {data[at]} bits")
    return width * height, data[at], _blocks(data, at + 1)[1]


def _colours(flags: int) -> int:
    """Bytes of the colour table."""
    return 3 * (2 << (flags & 7)) if flags & 0x80 else 0


def _blocks(data: bytes, at: int) -> tuple[int, bytes]:
    """Where sub-blocks end, and their contents."""
    contents = bytearray()  # a list of blocks of two bytes would take thirty times as much
    while size := data[at]:
        contents += data[at + 1 : at + 1 + size]
        at += 1 + size
    return at + 1, bytes(contents)


def _count(codes: bytes, smallest: int, pixels: int) -> None:
    """Follow the codes (LZW of variable length) by the lengths of what they stand for. Raises Damaged beyond
    ``pixels``, and for a code that nothing has defined."""
    clear = 1 << smallest
    lengths, width, before, counted = [1] * clear + [0, 0], smallest + 1, 0, 0
    held = bits = followed = 0
    for byte in codes:
        held |= byte << bits
        bits += 8
        while bits >= width:
            code = held & ((1 << width) - 1)
            held >>= width
            bits -= width
            followed += 1
            if code == clear:
                del lengths[clear + 2 :]  # a new list of 2,050 for each such code took a minute for 5 MB of them
                width, before = smallest + 1, 0
                continue
            if code == clear + 1:
                return
            if before and len(lengths) < TABLE:
                lengths.append(before + 1)
                if len(lengths) == 1 << width and width < 12:
                    width += 1
            if code >= len(lengths):
                raise Damaged("its codes are no LZW")
            before = lengths[code]
            counted += before
            if counted > pixels:
                raise Damaged(f"its codes stand for more than its {pixels} pixels")
        if followed > MAX_CODES:
            raise Damaged(f"it has more than {MAX_CODES} codes: send a PNG or JPEG file instead")
