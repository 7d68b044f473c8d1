"""GIF files (89a). The check counts the codes of the first picture, the only one that the decoder reads."""

from __future__ import annotations

import struct

from edgeserve.api.pictures.file import Damaged, Head

KINDS = (b"GIF87a", b"GIF89a")
PICTURE, EXTENSION = 0x2C, 0x21
MAX_CODES = 3 << 20
"""Codes in one picture. The check follows two million a second; a photograph of a megapixel has half a million."""
TABLE = 4096
"""Different codes of 12 bits."""


def read_head(data: bytes) -> Head:
    """Raises Damaged."""
    if data[:6] not in KINDS or len(data) < 13:
        raise Damaged("its header is none of GIF87a and GIF89a")
    width, height = struct.unpack_from("<HH", data, 6)
    return Head(width, height, 9)


def check(data: bytes, head: Head) -> None:
    """Raises Damaged, also for codes that stand for too many pixels.

    The decoder takes a step for each such pixel, also beyond the last row. A megabyte can stand for two billion.
    """
    try:
        pixels, smallest, codes = _first_picture(data, head)
    except IndexError:
        raise Damaged("it is cut off") from None
    _count(codes, smallest, pixels)


def _first_picture(data: bytes, head: Head) -> tuple[int, int, bytes]:
    """The first picture: its number of pixels, the bits of its smallest code, and its codes."""
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
    """The end of a row of sub-blocks, and their contents."""
    contents = bytearray()  # a list of blocks of two bytes would take thirty times as much
    while size := data[at]:
        contents += data[at + 1 : at + 1 + size]
        at += 1 + size
    return at + 1, bytes(contents)


def _count(codes: bytes, smallest: int, pixels: int) -> None:
    """Add up the pixels that the codes (LZW of variable length) stand for.

    Raises Damaged beyond ``pixels``, beyond ``MAX_CODES``, and for an undefined code.
    """
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
