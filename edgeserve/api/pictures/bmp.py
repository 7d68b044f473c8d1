"""BMP files. The check reads the header and makes sure that the file holds all rows."""

from __future__ import annotations

import struct

from edgeserve.api.pictures.file import Damaged, Head

SHORT = 12
"""Bytes of the header of OS/2."""
HEADERS = (SHORT, 40, 56, 108, 124)
PLAIN = (0, 3)
"""Compressions that are none: pixels as they are, and pixels with masks for their channels."""


def read_head(data: bytes) -> Head:
    """Raises Damaged, also for a kind of BMP that the decoder does not read."""
    size = int.from_bytes(data[14:18], "little")
    if len(data) < 14 + size:
        raise Damaged("it is cut off")
    if size not in HEADERS:
        raise Damaged(f"its kind of BMP, with a header of {size} bytes, is not read")
    if size == SHORT:
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
        if (compression := int.from_bytes(data[30:34], "little")) not in PLAIN:
            raise Damaged(f"its compression {compression} is not read, only plain pixels")
    return Head(max(0, width), abs(height), 8)


def check(data: bytes, head: Head) -> None:
    """Raises Damaged."""
    (offset, size) = struct.unpack_from("<II", data, 10)
    planes, bits = struct.unpack_from("<HH", data, 22 if size == SHORT else 26)
    if planes != 1 or bits not in (1, 4, 8, 16, 24, 32):
        raise Damaged(f"it has {planes} planes of {bits} bits")
    rows = (head.width * bits + 31) // 32 * 4 * head.height
    if (there := len(data) - max(offset, 14 + size)) < rows - 3:  # the last row need not be padded
        raise Damaged(f"it ends after {max(0, there)} of {rows} bytes of pixels")
