"""The number of tags in a sound file, counted before FFmpeg reads them.

FFmpeg compares each tag with all before it, and reads nothing meanwhile: 4 MB of tags took a quarter of an hour.
Matroska has a room of its own (edgeserve/audio/matroska.py).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

MAX_TAGS = 4096
"""Most tags of one file."""
MAX_VENDOR = 1024
"""Longest name of the writing program in a comment."""
COMMENT = 4
"""Type of a block of FLAC (RFC 9639, section 8.1)."""
ID3_HEAD = 10
OTHERS = (b"RIFF", b"FORM", b"caff", b".snd", b"\x1a\x45\xdf\xa3")
"""Begins of files whose tags FFmpeg reads piece by piece, or that are counted elsewhere."""
ID3_TAG = re.compile(rb"(?:T..|COM|USL|ULT).?\0\0", re.DOTALL)
"""A small text of ID3, versions 2.2 to 2.4. AAC may hold tags between its packets."""
PRIVATE = b"PRIV"
"""A frame of ID3, in any container. FFmpeg makes tags of all of them at once."""
WINDOW = 1 << 18
"""Bytes searched in one call, during which no other thread runs."""
OGG, OGG_HEAD = b"OggS", 27
"""Begin of a page, and its bytes before the sizes of its segments (RFC 3533, section 6)."""
MAX_WRONG = 256
"""Most pages of Ogg with a wrong checksum. FFmpeg reads each again from its fifth byte."""
OGG_COMMENTS = (b"\x03vorbis", b"OpusTags", b"\x81theora", b"OVP80\x02 ")
"""Begins of a comment's packet in Ogg."""
SKIPPED = (0, 4, 7, 8)
"""Bytes before the comment in packets of other forms: Speex and CELT, FLAC, OGM. These have no begin of their own."""
LONG = re.compile(rb"\xff{96,}")
"""Segments of a packet that may hold MAX_TAGS tags, of seven bytes at least."""
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Each byte with its bits in reverse: Ogg's checksum takes the highest bit first, zlib's the lowest."""


def tags(data: bytes) -> int:
    """Number of tags that comments of FLAC or Ogg state, or of ID3 in MP3 and AAC; and private frames of ID3.

    Counting may end beyond MAX_TAGS.
    """
    private = sum(window.count(PRIVATE) for window in _windows(data)) if PRIVATE in data else 0
    start = _after_id3(data)
    if data.startswith(b"fLaC", start):
        return private + _added(map(_stated, _flac_blocks(data, start)))
    if data.startswith(OGG, start):
        return private + _added(_ogg_counts(data, start))
    if data.startswith(OTHERS, start) or data[start + 4 : start + 8] == b"ftyp" or b"ID3" not in data:
        return private
    return private + sum(len(ID3_TAG.findall(window)) for window in _windows(data))


def _windows(data: bytes) -> Iterator[bytes]:
    return (data[start : start + WINDOW] for start in range(0, len(data), WINDOW))


def _after_id3(data: bytes) -> int:
    """The place where the sound's own container begins: FFmpeg skips tags of ID3 before any container."""
    at = 0
    while data.startswith(b"ID3", at) and 0xFF not in data[at + 3 : at + 5] and len(data) >= at + ID3_HEAD:
        size = data[at + 6 : at + ID3_HEAD]
        if any(byte & 0x80 for byte in size):
            break
        footer = data[at + 3] == 4 and data[at + 5] & 0x10  # of version 2.4
        at += ID3_HEAD + sum(byte << shift for byte, shift in zip(size, (21, 14, 7, 0), strict=True))
        at += ID3_HEAD if footer else 0
    return at


def _added(counts: Iterable[int]) -> int:
    """The tags in all comments, since FFmpeg gathers them in one list. A comment counts as one tag at least."""
    found = 0
    for count in counts:
        found += max(1, count)
        if found > MAX_TAGS:
            break
    return found


def _stated(comment: bytes) -> int:
    """The number of tags in a comment (Vorbis I, section 5). A vendor without an end counts as too many."""
    vendor = int.from_bytes(comment[:4], "little")
    return int.from_bytes(comment[4 + vendor : 8 + vendor], "little") if vendor <= MAX_VENDOR else MAX_TAGS + 1


def _flac_blocks(data: bytes, start: int) -> Iterator[bytes]:
    """The begins of comments, and nothing for each other block of metadata."""
    at, last = start + 4, False
    while not last and at + 4 <= len(data):
        last, kind, size = bool(data[at] & 0x80), data[at] & 0x7F, int.from_bytes(data[at + 1 : at + 4], "big")
        yield data[at + 4 : at + 4 + min(size, MAX_VENDOR + 8)] if kind == COMMENT else b""
        at += 4 + size


# Ogg


def _ogg_counts(data: bytes, start: int) -> Iterator[int]:
    """The tags of each comment, in all streams."""
    streams: dict[bytes, bytearray] = {}
    begins: dict[bytes, list[int]] = {}
    wrong = taken = 0
    for page, sizes in _pages(data, start):
        wrong, taken = wrong + (sizes is None), taken + sum(sizes or b"")
        if wrong > MAX_WRONG or taken > len(data):  # pages in pages, which could hold the file 230 times
            yield MAX_TAGS + 1
        if sizes is None:
            continue
        serial, body = data[page + 14 : page + 18], page + OGG_HEAD + len(sizes)
        stream = streams.setdefault(serial, bytearray())
        begins.setdefault(serial, []).extend(len(stream) + place for place in _long_packets(sizes))
        stream += data[body : body + sum(sizes)]
    for serial, stream in streams.items():
        marked = dict(_marked(stream))
        yield from marked.values()
        # Next to nothing where there is no comment. All of them count, so that their number bounds this work, too.
        places = dict.fromkeys(at + skipped for at in begins[serial] for skipped in SKIPPED)
        yield from filter(None, (_walked(stream, at) for at in places if at not in marked))


def _pages(data: bytes, page: int) -> Iterator[tuple[int, bytes | None]]:
    """The pages that FFmpeg reads, each with the sizes of its segments; None for a page with a wrong checksum."""
    while page >= 0 and page + OGG_HEAD <= len(data):
        sizes = data[page + OGG_HEAD : page + OGG_HEAD + data[page + OGG_HEAD - 1]]
        end = page + OGG_HEAD + len(sizes) + sum(sizes)
        whole = _right(data[page:end])
        yield page, sizes if whole else None
        # Where no page follows, FFmpeg goes back into this one.
        page = end if whole and data.startswith(OGG, end) else data.find(OGG, page + 4)


def _right(page: bytes) -> bool:
    """Whether the checksum of a page is right (RFC 3533, section 6)."""
    head = page[:22].translate(REVERSED) + b"\0\0\0\0" + page[26:OGG_HEAD].translate(REVERSED)
    found = zlib.crc32(page[OGG_HEAD:].translate(REVERSED), zlib.crc32(head, 0xFFFFFFFF)) ^ 0xFFFFFFFF
    return found == int.from_bytes(page[22:26].translate(REVERSED), "big")


def _long_packets(sizes: bytes) -> Iterator[int]:
    """Places in a page where a packet may begin that is long, or continues in the next page."""
    if sizes[:1] == b"\xff":
        yield 0
    for run in LONG.finditer(sizes):
        yield sum(sizes[: run.start()])
    if sizes[-1:] == b"\xff":
        yield sum(sizes[: len(sizes.rstrip(b"\xff"))])


def _marked(stream: bytearray) -> Iterator[tuple[int, int]]:
    """Place and stated tags of each comment that has a begin of its own; no more of them than tags are allowed."""
    left = MAX_TAGS + 1
    for begin in OGG_COMMENTS:
        at = stream.find(begin)
        while at >= 0 and left:
            at, left = at + len(begin), left - 1
            yield at, _stated(bytes(stream[at : at + MAX_VENDOR + 8]))
            at = stream.find(begin, at)


def _walked(stream: bytearray, at: int) -> int:
    """The number of tags in the comment at a place, up to MAX_TAGS + 1."""
    at += 4 + int.from_bytes(stream[at : at + 4], "little")
    stated, found = int.from_bytes(stream[at : at + 4], "little"), 0
    at += 4
    while found < min(stated, MAX_TAGS + 1) and at + 4 <= len(stream):
        at += 4 + int.from_bytes(stream[at : at + 4], "little")
        found += at <= len(stream)
    return found
