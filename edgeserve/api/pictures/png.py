"""PNG files (ISO/IEC 15948). The check walks every chunk and inflates the pixels before a decoder does.

It inflates only IDAT. The decoder skips other compressed chunks (iCCP, iTXt, zTXt), so their contents cost nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from edgeserve.api.pictures.file import Damaged, Head

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples a pixel by colour type."""
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
KNOWN = {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
"""Chunks that a decoder must not skip."""
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Adam7: first column and row of each pass, and the steps between them."""
MAX_CHUNKS = 65_536
"""Chunks of one file. A file of the largest body in the usual chunks of 8 kB has 4,096."""
SURPLUS = 65_536
"""Bytes that may follow the pixels, since some encoders write zeros there (stb_image, issue 276)."""
PIECE = 16_384
"""Compressed bytes inflated in one call."""


def read_head(data: bytes) -> Head:
    """Raises Damaged."""
    if data[8:16] != b"\0\0\0\x0dIHDR" or len(data) < 29:
        # Some decoders skip another chunk in its place, so what stands there need not be the dimensions.
        raise Damaged("its first chunk is no IHDR")
    width, height, depth, colour, compression, filtering, interlaced = struct.unpack_from(">IIBBBBB", data, 16)
    if depth not in DEPTHS.get(colour, ()) or compression or filtering or interlaced > 1:
        raise Damaged(f"its header names no form of PNG (depth {depth}, colour type {colour})")
    pixel = CHANNELS[colour] * max(8, depth) / 8 if colour != 3 else 4
    # Inflated and unfiltered at once; 16 bit are turned into 8 next.
    return Head(width, height, 2.5 * pixel if depth == 16 else 2 * pixel)


def check(data: bytes, head: Head) -> None:
    """Raises Damaged, also for pixels that are more or fewer than the header promises."""
    promised = _promised(head, bits=CHANNELS[data[25]] * data[24], interlaced=bool(data[28]))
    inflated, inflater = 0, zlib.decompressobj()
    try:
        for piece in _compressed(data):
            waiting: memoryview | bytes = piece
            while waiting and not inflater.eof:
                inflated += len(inflater.decompress(waiting, PIECE * 4))
                if inflated > promised + SURPLUS:
                    raise Damaged(f"its pixels inflate to more than the {promised} bytes that its header promises")
                waiting = inflater.unconsumed_tail
        inflated += len(inflater.flush())
    except zlib.error as error:
        raise Damaged(f"its pixels cannot be inflated ({error})") from None
    if inflated < promised:
        raise Damaged(f"it ends after {inflated} of {promised} bytes of pixels")


def _promised(head: Head, *, bits: int, interlaced: bool) -> int:
    """Bytes of all rows, each with its filter type. A pixel has ``bits`` bits."""

    def rows(width: int, height: int) -> int:
        return height * (1 + (width * bits + 7) // 8) if width > 0 and height > 0 else 0

    if not interlaced:
        return rows(head.width, head.height)
    return sum(rows(-(-(head.width - x) // across), -(-(head.height - y) // down)) for x, y, across, down in PASSES)


def _compressed(data: bytes) -> Iterator[memoryview]:
    """The contents of the IDAT chunks, in pieces. Raises Damaged for chunks that do not lead to IEND."""
    view, at, palette = memoryview(data), 8, data[25] != 3
    for _ in range(MAX_CHUNKS):
        if at + 12 > len(data):
            raise Damaged("it is cut off")
        (length,), kind = struct.unpack_from(">I", data, at), data[at + 4 : at + 8]
        body, at = view[at + 8 : at + 8 + length], at + 12 + length
        if kind == b"IEND":
            return
        if at > len(data):
            raise Damaged("it is cut off")
        if kind == b"IHDR" and at > 33:
            raise Damaged("it has two headers")
        if not kind[0] & 0x20 and kind not in KNOWN:
            raise Damaged(f"its chunk {kind!r} is not known")
        palette = palette or kind == b"PLTE"
        if kind == b"IDAT":
            if not palette:
                raise Damaged("it has no palette")
            for start in range(0, length, PIECE):
                yield body[start : start + PIECE]
    raise Damaged(f"it has more than {MAX_CHUNKS} chunks")
