"""JPEG files (ITU T.81). The check walks the segments and counts the scans before a decoder reads the file."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from edgeserve.api.pictures.file import Damaged, Head

SOI = b"\xff\xd8"
MAX_SEGMENTS = 4096
"""Segments of one file. A colour profile takes 255 at most."""
MAX_SCANS = 100
"""Scans of one file: each costs the decoder a pass over all pixels. libjpeg writes 10, MozJPEG at most 12."""
FILL = re.compile(rb"\xff+")
"""The first byte of a marker; any number of the same bytes may precede it (B.1.1.2)."""
MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker among entropy-coded data, except restart markers."""
WINDOW = 1 << 18
"""Bytes searched in one call, during which no other thread runs."""
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""SOF0 to SOF15 (table B.1)."""
READ = {0xC0: "baseline", 0xC1: "extended", 0xC2: "progressive"}
SCAN, END = 0xDA, 0xD9
BORDERS = FRAMES | {SCAN, END}
"""Markers that end the search for a frame."""
LEAST = 20
"""Bytes that follow a frame's marker at least: the headers of the frame and of a scan."""


def read_head(data: bytes) -> Head:
    """Raises Damaged, also for a kind of JPEG that the decoder does not read."""
    marker, at = next((one for one in _segments(data) if one[0] in BORDERS), (END, 0))
    if marker not in FRAMES:
        raise Damaged("it has no frame")
    if at + LEAST > len(data):
        raise Damaged("it is cut off")
    length, depth, height, width, count = struct.unpack_from(">HBHHB", data, at)
    if marker not in READ:
        raise Damaged(f"its kind of JPEG (SOF{marker - 0xC0}) is not read, only baseline and progressive")
    if depth != 8 or count not in (1, 3, 4) or length != 8 + 3 * count:
        raise Damaged(f"it has {count} components of {depth} bits; only 1, 3 or 4 of 8 bits are read")
    samples = [data[at + 9 + 3 * one] for one in range(count)]  # of each, across and down
    if not all(0 < one >> 4 <= 4 and 0 < one & 15 <= 4 for one in samples):
        raise Damaged("its components have no size")
    largest = max(one >> 4 for one in samples) * max(one & 15 for one in samples)
    planes = sum((one >> 4) * (one & 15) for one in samples) / largest
    # A progressive picture is held as coefficients of two bytes too, at any size; the result has three.
    coefficients = 2 * planes if READ[marker] == "progressive" else 0.0
    return Head(width, height, coefficients + planes + 3, coefficients)


def check(data: bytes, head: Head) -> None:
    """Raises Damaged."""
    scans = frames = 0
    for marker, _ in _segments(data):
        scans += marker == SCAN
        frames += marker in FRAMES
        if frames > 1:
            raise Damaged("it has two frames")
        if scans > MAX_SCANS:
            raise Damaged(f"it has more than {MAX_SCANS} scans")
    if not scans:
        raise Damaged("it has no scan")


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Marker and place of each segment. Raises Damaged for segments that lead nowhere, and for too many of them."""
    at, scanned = 2, False
    for _ in range(MAX_SEGMENTS):
        found = _next(data, at) if scanned else FILL.match(data, at)
        if found is None or found.end() + 2 > len(data):
            break
        marker, at = (data[found.end() - 1], found.end()) if scanned else (data[found.end()], found.end() + 1)
        yield marker, at
        if marker == END:
            return
        if at + 2 > len(data):
            break
        (length,) = struct.unpack_from(">H", data, at)
        scanned = scanned or marker == SCAN
        at += length
    else:
        raise Damaged(f"it has more than {MAX_SEGMENTS} segments")
    if not scanned:
        raise Damaged("its segments lead nowhere")


def _next(data: bytes, at: int) -> re.Match[bytes] | None:
    for start in range(at, len(data), WINDOW):
        if found := MARKER.search(data, start, start + WINDOW + 1):
            return found
    return None
