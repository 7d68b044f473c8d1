"""Contents of a Matroska file beside its sound, counted before FFmpeg reads it (RFC 9559).

FFmpeg goes through all tags again after each, so 80 kB of tags took it a minute, and 400 kB hours. It searches all
chapters for each chapter, and moves all entries of the index for each entry. It reads nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

BEGIN = b"\x1a\x45\xdf\xa3"
TRACKS = b"\x16\x54\xae\x6b"
LIMITS = {
    b"\x12\x54\xc3\x67": ("tags", {b"\x73\x73": 512, b"\x67\xc8": 512}),
    b"\x10\x43\xa7\x70": ("chapters", {b"\xb6": 20_000}),
    b"\x1c\x53\xbb\x6b": ("entries of its index", {b"\xb7": 50_000}),
}
"""Elements of a file: their name, and the most elements of some kinds in them. Such bytes in other places count, too:
what looks like text to one reader is an element to another."""
MAX_ELEMENTS = 512
"""Most elements of one of these kinds."""
FLAC, MAX_FLAC = b"A_FLAC", 64_000
"""FLAC in Matroska, and the most bytes of its description: it may hold tags, which FFmpeg reads for a number only."""
WINDOW = 1 << 18
"""Bytes searched in one call, during which no other thread runs."""
ENCODINGS = b"\x6d\x80"
"""A description that is compressed."""


def surplus(data: bytes) -> str:
    """The contents that a Matroska file has too many of; empty for other files, and for files that open quickly."""
    if BEGIN not in data:
        return ""
    for element, (name, limits) in LIMITS.items():
        for kind, most in limits.items():
            if _more(data, element, kind, most):
                return f"more than {most} {name}"
    if FLAC in data and (_more(data, TRACKS, b"", MAX_FLAC) or _more(data, TRACKS, ENCODINGS, 0)):
        return "tags in the description of its FLAC"
    return ""


def _more(data: bytes, element: bytes, kind: bytes, most: int) -> bool:
    """Whether elements hold a kind of bytes more than ``most`` times, or are too many."""
    found = 0
    for number, (start, end) in enumerate(_contents(data, element), start=1):
        for at in range(start, end, WINDOW):
            found += data.count(kind, at, min(end, at + WINDOW + len(kind) - 1))
            if found > most:
                return True
        if number > MAX_ELEMENTS:
            return True
    return False


def _contents(data: bytes, element: bytes) -> Iterator[tuple[int, int]]:
    """Begin and end of each element of a kind, apart from the contents of one before it."""
    at, reached = data.find(element), 0
    while at >= 0:
        start, size = _size(data, at + len(element))
        end = min(len(data), start + size)
        yield max(start, reached), max(end, reached)
        reached = max(reached, end)
        at = data.find(element, at + 1)


def _size(data: bytes, at: int) -> tuple[int, int]:
    """The begin and the size of an element's contents (RFC 8794, section 6); all of the file where it is unknown."""
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ((1 << 7 * length) - 1)
    unknown = size == (1 << 7 * length) - 1
    return at + length, len(data) if unknown else size
