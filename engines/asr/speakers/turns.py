"""From the voices of overlapping windows to who speaks when. Pure; times are frames of 10 ms."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.asr.speakers.clusters import centres, cluster, in_order

WINDOW, HOP = 160, 40
"""Frames of a window, as in the encoder's training, and frames from one window to the next."""
SHORTEST = 40
"""Frames of speech below which the encoder hears no voice."""
ALIKE = 0.70
"""Mean cosine from which two groups of windows are one speaker (docs/decisions/0041-speakers.md)."""
KNOWN = 0.80
"""Cosine between the centre of a group and a reference from which the group is that speaker."""
LEAST_WINDOWS = 4
"""A group of fewer windows is a mixture or a noise, and joins the speaker that is most like it."""
MOST_SPEAKERS = 26


@dataclass(frozen=True, slots=True)
class Heard:
    """The windows of one stretch of speech. ``start``: its first frame. ``voices``: float32 [windows, d]."""

    start: int
    frames: int
    voices: Any


@dataclass(frozen=True, slots=True)
class Turn:
    start: int
    end: int
    speaker: int


def windows(frames: int) -> Sequence[tuple[int, int]]:
    """First frame and end of each window of a stretch. The last window ends with the stretch."""
    if frames < SHORTEST:
        return ()
    if frames <= WINDOW:
        return ((0, frames),)
    starts = dict.fromkeys([*range(0, frames - WINDOW, HOP), frames - WINDOW])
    return tuple((start, start + WINDOW) for start in starts)


def turns(heard: Sequence[Heard], references: Any) -> Iterator[Turn | None]:
    """Who speaks when, in order. ``references``: voices of the known speakers, float32 [r, d].

    Speakers below r are the known ones; others follow in the order of appearance. Yields None now and then before the
    first turn: two hours of sound take seconds.
    """
    import numpy

    if not heard:
        return
    voices = numpy.concatenate([one.voices for one in heard])
    labels = yield from _labels(voices)
    groups = centres(voices, labels)
    names = _names(groups, references)
    spoken = [_spoken(one, groups) for one in heard]
    order = numpy.concatenate([names[speakers] for _, speakers in spoken])
    unknown = order >= len(references)
    order[unknown] = in_order(order[unknown]) + len(references)
    at = 0
    for one, (edges, speakers) in zip(heard, spoken, strict=True):
        yield from _runs(one.start, edges, order[at : at + len(speakers)])
        at += len(speakers)


def _labels(voices: Any) -> Generator[None, None, Any]:
    """Groups of windows of one speaker each, without groups that are too small."""
    import numpy

    labels = yield from cluster(voices, ALIKE, MOST_SPEAKERS)
    sizes = numpy.bincount(labels)
    large = numpy.flatnonzero(sizes >= min(LEAST_WINDOWS, sizes.max()))
    nearest = (voices @ centres(voices, labels)[large].T).argmax(axis=1)
    return in_order(numpy.where(numpy.isin(labels, large), numpy.searchsorted(large, labels), nearest))


def _names(groups: Any, references: Any) -> Any:
    """The speaker's number of each group: that of a similar reference, else a number of its own."""
    import numpy

    own = len(references) + numpy.arange(len(groups))
    if not len(references):
        return own
    cosines = groups @ references.T
    return numpy.where(cosines.max(axis=1) >= KNOWN, cosines.argmax(axis=1), own)


def _spoken(one: Heard, groups: Any) -> tuple[Sequence[int], Any]:
    """The edges of the slots of a stretch, and the group of each slot: the most alike to the windows that cover it."""
    import numpy

    edges = [*range(0, max(1, one.frames - HOP // 2), HOP), one.frames]
    cosines = one.voices @ groups.T
    covered = numpy.asarray(windows(one.frames))
    middles = (numpy.asarray(edges[:-1]) + numpy.asarray(edges[1:])) / 2
    covers = (covered[:, 0] <= middles[:, None]) & (middles[:, None] <= covered[:, 1])
    return edges, (covers.astype(numpy.float32) @ cosines).argmax(axis=1)


def _runs(start: int, edges: Sequence[int], speakers: Any) -> Iterator[Turn]:
    """Neighbouring slots of one speaker as one turn."""
    begin = 0
    for at in range(1, len(speakers) + 1):
        if at == len(speakers) or speakers[at] != speakers[begin]:
            yield Turn(start + edges[begin], start + edges[at], int(speakers[begin]))
            begin = at
