"""Bounds on FFmpeg's memory and time for one sound file, whatever the file states.

A file of 800 bytes may state 80 million samples; FFmpeg made tables of 3 GB for them. One packet may last for hours;
FFmpeg decoded it to 2 GB of samples at once.
"""

from __future__ import annotations

import ctypes
import functools
import re
import time
from collections.abc import Iterable, Iterator
from io import BytesIO

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
OPEN_SECONDS = 4.0
"""Seconds of computing in which FFmpeg opens a file. Two hours of AAC in MP4 take 0.2 s."""
MAX_TAGS = 4096
"""Most tags in one comment of FLAC or Ogg. FFmpeg compares each tag with all before it, and reads nothing meanwhile."""
MAX_VENDOR = 1024
"""Longest name of the writing program in such a comment."""
COMMENT = 4
"""Type of a block of FLAC (RFC 9639, section 8.1)."""
OGG_COMMENTS = (b"\x03vorbis", b"OpusTags")
"""Begins of a comment's packet in Ogg."""
OTHERS = (b"RIFF", b"FORM", b"caff", b".snd", b"\x1a\x45\xdf\xa3")
"""Begins of files without ID3 tags, or whose tags FFmpeg reads piece by piece."""
ID3_TAG = re.compile(rb"(?:T..|COM|USL|ULT).?\0\0", re.DOTALL)
"""A small text of ID3, versions 2.2 to 2.4. AAC may hold tags between its packets."""
WINDOW = 1 << 18
"""Bytes searched in one call, during which no other thread runs."""
OGG_HEAD = 27
"""Bytes of a page before the sizes of its segments (RFC 3533, section 6)."""
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
    """A sound file for FFmpeg. It ends early and is ``slow`` where FFmpeg does not open it in ``seconds``.

    FFmpeg compares each tag with all before it: 4 MB of tags took a quarter of an hour.
    """

    def __init__(self, data: bytes, seconds: float = OPEN_SECONDS) -> None:
        super().__init__(data)
        self.slow = False
        self._until: float | None = time.thread_time() + seconds

    def opened(self) -> None:
        self._until = None

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


def tags(data: bytes) -> int:
    """Number of tags that comments of FLAC or Ogg state, or of ID3 in MP3 and AAC. Counting may end beyond MAX_TAGS."""
    if data.startswith(b"fLaC"):
        return _count(_flac_blocks(data))
    if data.startswith(b"OggS"):
        return _count(_ogg_comments(data))
    if data.startswith(OTHERS) or data[4:8] == b"ftyp" or b"ID3" not in data:
        return 0
    windows = (data[start : start + WINDOW] for start in range(0, len(data), WINDOW))
    return sum(len(ID3_TAG.findall(window)) for window in windows)


def _count(comments: Iterable[bytes]) -> int:
    """The tags in all comments, since FFmpeg gathers them in one list. A comment counts as one tag at least."""
    found = 0
    for comment in comments:
        found += max(1, _stated(comment))
        if found > MAX_TAGS:
            break
    return found


def _stated(comment: bytes) -> int:
    """The number of tags in a comment (Vorbis I, section 5). A vendor without an end counts as too many."""
    vendor = int.from_bytes(comment[:4], "little")
    return int.from_bytes(comment[4 + vendor : 8 + vendor], "little") if vendor <= MAX_VENDOR else MAX_TAGS + 1


def _flac_blocks(data: bytes) -> Iterator[bytes]:
    """The begins of comments, and nothing for each other block of metadata."""
    at, last = 4, False
    while not last and at + 4 <= len(data):
        last, kind, size = bool(data[at] & 0x80), data[at] & 0x7F, int.from_bytes(data[at + 1 : at + 4], "big")
        yield data[at + 4 : at + 4 + min(size, MAX_VENDOR + 8)] if kind == COMMENT else b""
        at += 4 + size


def _ogg_comments(data: bytes) -> Iterator[bytes]:
    """The begins of comments in each stream, whose pages may cut them anywhere."""
    streams: dict[bytes, bytearray] = {}
    page = 0
    while page >= 0:
        if page + OGG_HEAD > len(data):
            break
        sizes = data[page + OGG_HEAD : page + OGG_HEAD + data[page + OGG_HEAD - 1]]
        start = page + OGG_HEAD + len(sizes)
        end = start + sum(sizes)
        streams.setdefault(data[page + 14 : page + 18], bytearray()).extend(data[start:end])
        page = data.find(b"OggS", end)
    for packets in streams.values():
        for begin in OGG_COMMENTS:
            at = packets.find(begin)
            while at >= 0:
                at += len(begin)
                yield bytes(packets[at : at + MAX_VENDOR + 8])
                at = packets.find(begin, at)


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
