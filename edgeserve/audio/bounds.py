"""Bounds on FFmpeg's memory and time for one sound file, whatever the file states.

A file of 800 bytes may state 80 million samples; FFmpeg made tables of 3 GB for them. One packet may last for hours;
FFmpeg decoded it to 2 GB of samples at once.
"""

from __future__ import annotations

import ctypes
import functools

MAX_BYTES = 12 << 20
"""Largest allocation of FFmpeg. The table of two hours of AAC in MP4 takes 8 MB, a packet's samples far less."""
MAX_STREAMS = 16
"""Most streams of a file. Each has tables of its own. A telephone's video has up to eight."""
MAX_EDITS = 256
"""Most edits of an MP4 file: FFmpeg searches a track once for each."""
EDIT_BYTES = 12
SOUND, TRACK, LIST = b"mdat", b"trak", b"elst"
"""Names of boxes (ISO/IEC 14496-12)."""


@functools.cache
def limit_memory() -> None:
    """Limit each allocation of FFmpeg to MAX_BYTES from here on; a larger one is an error of FFmpeg."""
    import av._core

    set_most = ctypes.CDLL(av._core.__file__).av_max_alloc  # libavutil is linked with this module
    set_most.argtypes, set_most.restype = [ctypes.c_size_t], None
    set_most(MAX_BYTES)


def edits(data: bytes) -> int:
    """Largest possible number of entries in the edit lists of an MP4 file; 0 for any other file."""
    found = 0
    for start, end in _without_sound(data) if TRACK in data else ():
        at = data.find(LIST, start, end)
        while at >= 0:
            count = int.from_bytes(data[at + 8 : at + 12], "big")
            found += min(count, max(0, len(data) - at - 12) // EDIT_BYTES)
            at = data.find(LIST, at + 4, end)
    return found


def _without_sound(data: bytes) -> list[tuple[int, int]]:
    """Parts of the file that hold no sound. All of it when sound holds a track, to which a table may lead."""
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
