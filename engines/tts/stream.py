"""Speech as a stream: one piece is computed ahead, and events grow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from edgeserve.engine import Cancel

LONGEST = 96_000
"""Bytes of PCM from which on an event grows no more: two seconds at 24 kHz."""
REST_CHARACTERS = 200
"""Characters between two places where an answer may rest, at least: some 13 seconds of speech."""


def with_rests(
    passages: Iterable[str], pieces: Callable[[str], Iterable[str]], first: int
) -> Iterator[tuple[str, int | None]]:
    """The pieces of the passages from number ``first`` on.

    With the last piece of a passage comes the number of the next one, where the answer may rest; else None.
    """
    numbered, said = itertools.islice(enumerate(passages), first, None), 0
    following = next(numbered, None)
    while following is not None:
        number, passage = following
        following = next(numbered, None)
        said += len(passage)
        rests = following is not None and said >= REST_CHARACTERS
        said = 0 if rests else said
        held: str | None = None
        for piece in pieces(passage):
            if held is not None:
                yield held, None
            held = piece
        if held is not None:
            yield held, number + 1 if rests else None


def computed_ahead(
    read: Callable[[], str | None], say: Callable[[str, bool], Iterator[Any]], limit: int, cancel: Cancel
) -> Generator[Any | None, None, None]:
    """The samples of each piece that ``read`` gives, then None for the piece's end. An empty piece gives only None.

    A thread reads one piece ahead, computes this piece beside the samples of the current one, and ends with the last
    piece. ``say`` learns whether samples of another piece are computed meanwhile. The thread computes ahead only where
    both pieces together have at most ``limit`` phonemes. So two pieces take no more memory than the longest one.
    """
    with ThreadPoolExecutor(1, "edgeserve-tts") as thread:
        piece, samples = read(), None
        reading = thread.submit(read)
        while piece is not None and not cancel.is_set():
            samples = samples or (say(piece, False) if piece else iter(()))
            following = reading.result()
            coming = None
            if following and len(piece) + len(following) <= limit and not cancel.is_set():
                coming = thread.submit(say, following, True)
            reading = thread.submit(read)
            yield from samples
            yield None
            piece, samples = following, coming.result() if coming else None


def growing(samples: Iterable[Any | None]) -> Iterator[bytes | None]:
    """PCM of the samples: the first array alone, then twice as much each time, and the remainder at the end of a piece.

    Audio begins soon this way, and the events stay few. None at the end of each piece.
    """
    held, wanted = bytearray(), 1
    for some in samples:
        if some is not None:
            held += pcm16(some)
        if held and (some is None or len(held) >= wanted):
            wanted = min(max(wanted, 2 * len(held)), LONGEST)
            yield bytes(held)
            held.clear()
        if some is None:
            yield None


def pcm16(samples: Any) -> bytes:
    """float32 samples in [-1, 1] as 16-bit PCM, little-endian."""
    import numpy

    return bytes((numpy.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes())
