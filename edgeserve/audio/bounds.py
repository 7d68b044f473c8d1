"""Bounds on what FFmpeg does for a file of sound, whatever the file says of itself.

A file of 800 bytes may promise 80 million samples, and one packet may last for hours: FFmpeg made tables of 3 GB for
the first, and samples of 2 GB at once for the second.
"""

from __future__ import annotations

import ctypes
import functools

MAX_BYTES = 12 << 20
"""Of one piece of FFmpeg's memory. The table of two hours of AAC in MP4 takes 8 MB, a packet's samples far less."""
MAX_STREAMS = 16
"""Each has tables of its own. A telephone's video has up to eight."""
MAX_EDITS = 256
"""In the edit lists of an MP4 file: FFmpeg looks through a track once for each."""
EDIT_BYTES = 12
SOUND, TRACK, LIST = b"mdat", b"trak", b"elst"
"""Names of boxes (ISO/IEC 14496-12)."""


@functools.cache
def limit_memory() -> None:
    """FFmpeg takes no piece of memory beyond MAX_BYTES from here on, and tells of an error instead."""
    import av._core

    set_most = ctypes.CDLL(av._core.__file__).av_max_alloc  # of libavutil, which that module is linked with
    set_most.argtypes, set_most.restype = [ctypes.c_size_t], None
    set_most(MAX_BYTES)


def edits(data: bytes) -> int:
    """Entries in the edit lists of an MP4 file, as many as there may be at most; 0 for any other file."""
    found = 0
    for start, end in _told(data) if TRACK in data else ():
        at = data.find(LIST, start, end)
        while at >= 0:
            count = int.from_bytes(data[at + 8 : at + 12], "big")
            found += min(count, max(0, len(data) - at - 12) // EDIT_BYTES)
            at = data.find(LIST, at + 4, end)
    return found


def _told(data: bytes) -> list[tuple[int, int]]:
    """The parts of the file that hold no sound; all of it where sound holds a track, to which a table may lead."""
    at, parts = 0, []
    while at + 8 <= len(data):
        size, head = int.from_bytes(data[at : at + 4], "big"), 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        end = min(len(data), at + size) if size else len(data)
        if end < at + head:
            return [(0, len(data))]
        if data[at + 4 : at + 8] != SOUND:
            parts.append((at, end))
        elif data.find(TRACK, at, end) >= 0:
            return [(0, len(data))]
        at = end
    return parts
