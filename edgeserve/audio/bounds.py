"""Bounds on FFmpeg's memory and time for one sound file, whatever the file states.

A file of 800 bytes may state 80 million samples; FFmpeg made tables of 3 GB for them. One packet may last for hours;
FFmpeg decoded it to 2 GB of samples at once.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Iterator
from io import BytesIO

SEND = "send WAV, MP3, M4A, FLAC, Ogg, Opus or WebM"
"""Advice in errors about a file that is refused."""
MAX_BYTES = 12 << 20
"""Largest allocation of FFmpeg. The table of two hours of AAC in MP4 takes 8 MB, a packet's samples far less."""
MAX_STREAMS = 16
"""Most streams of a file. Each has tables of its own. A telephone's video has up to eight."""
MAX_EDITS = 256
"""Most edits of an MP4 file: FFmpeg searches a track once for each."""
EDIT_BYTES = 12
FREE_PACKETS, PACKETS_A_SECOND = 50_000, 1000
"""Most packets of a file: so many, and so many more for each second of its sound. Opus has up to 400.

A megabyte may hold a million packets without a length; FFmpeg took 17 s for them.
"""
MAX_FORMS = 256
"""Most changes of a sound's form. FFmpeg takes 2 ms for each, as long as for a second of sound."""
OPEN_SECONDS = 4.0
"""Seconds of computing in which FFmpeg opens a file. Two hours of AAC in MP4 take 0.2 s."""
READ_SECONDS = 30.0
"""Seconds of computing in which FFmpeg reads an opened file once. Two hours of sound take 2 s."""
SOUND, TRACK, LIST = b"mdat", b"trak", b"elst"
"""Names of boxes (ISO/IEC 14496-12)."""


@functools.cache
def limit_memory() -> None:
    """Limit each allocation of FFmpeg to MAX_BYTES from here on; a larger one is an error of FFmpeg."""
    import av._core

    set_most = ctypes.CDLL(av._core.__file__).av_max_alloc  # libavutil is linked with this module
    set_most.argtypes, set_most.restype = [ctypes.c_size_t], None
    set_most(MAX_BYTES)


class Opening(BytesIO):
    """A sound file for FFmpeg. The file ends early and is ``slow`` if FFmpeg does not open it in ``seconds``.

    FFmpeg compares each tag with all before it (edgeserve/audio/tags.py), and searches damage byte by byte.
    """

    def __init__(self, data: bytes, seconds: float = OPEN_SECONDS) -> None:
        super().__init__(data)
        self.slow = False
        self._until: float | None = time.thread_time() + seconds

    def opened(self, seconds: float | None) -> None:
        """FFmpeg has opened the file, and may take so many seconds to read it; None: any number."""
        self._until = None if seconds is None else time.thread_time() + seconds

    def read(self, size: int | None = -1) -> bytes:
        if self._until is not None and time.thread_time() > self._until:
            self.slow = True
        return b"" if self.slow else super().read(size)


class Packets:
    """Counts the packets of a file against its sound."""

    def __init__(self) -> None:
        self.count = 0

    def too_many(self, seconds: float) -> bool:
        """Whether the file has too many, with one more here. ``seconds`` of sound end before it."""
        self.count += 1
        return self.count > FREE_PACKETS + PACKETS_A_SECOND * seconds


class Forms:
    """Counts how often the form of a sound changes: its rate, depth or channels. Each change makes new filters."""

    def __init__(self) -> None:
        self._last: object = None
        self._changes = -1

    def too_many(self, form: object) -> bool:
        """Whether there are too many, with this form next."""
        self._changes += form != self._last
        self._last = form
        return self._changes > MAX_FORMS


def edits(data: bytes) -> int:
    """Largest possible number of entries in the edit lists of an MP4 file; 0 for any other file."""
    found = 0
    for start, end in _without_sound(data) if TRACK in data else ():
        if (start, end) == (0, len(data)):
            return _entries(data, start, end)
        found += _entries(data, start, end)
    return found


def _entries(data: bytes, start: int, end: int) -> int:
    found, at = 0, data.find(LIST, start, end)
    while at >= 0:
        count = int.from_bytes(data[at + 8 : at + 12], "big")
        found += min(count, max(0, len(data) - at - 12) // EDIT_BYTES)
        at = data.find(LIST, at + 4, end)
    return found


def _without_sound(data: bytes) -> Iterator[tuple[int, int]]:
    """Parts of the file that hold no sound. All of it at last when sound holds a track, to which a table may lead.

    One part at a time: a list of 4 million boxes took 400 MB.
    """
    at = 0
    while at + 8 <= len(data):
        size, head = int.from_bytes(data[at : at + 4], "big"), 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        end = min(len(data), at + size) if size else len(data)
        if end < at + head or (data[at + 4 : at + 8] == SOUND and data.find(TRACK, at, end) >= 0):
            yield 0, len(data)
            return
        if data[at + 4 : at + 8] != SOUND:
            yield at, end
        at = end
