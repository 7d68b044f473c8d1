"""Whisper's segments with times of the file; a segment with pauses in its middle is parted there."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from edgeserve.engines.asr.whisper.joined import Joined
from edgeserve.messages import INPUT_SAMPLE_RATE, SegmentEvent, Word

ENDINGS = tuple(".,;:?!…。、？！")
MIDST_SECONDS = 1.5
"""Seconds by which the end of a clause may lie farther from a pause than another word and still belongs to it."""
Timed = Sequence[tuple[Word, int]]
"""A segment's words, each with its number of text tokens."""


def pauses(segment: SegmentEvent, stretches: Joined) -> list[int]:
    return stretches.pauses(*samples(segment))


def parted(segment: SegmentEvent, text: Sequence[int], timed: Timed, stretches: Joined) -> Iterator[SegmentEvent]:
    """The segment with its words; a segment with pauses in parts, each with the times of the speech between two pauses.

    ``text``: the segment's tokens without timestamps.
    """
    start, end = samples(segment)
    cuts = pauses(segment, stretches) if timed else []
    edges = [0, *boundaries(timed, cuts), len(timed)]
    borders = [start, *cuts, end]
    at = 0
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        group = timed[first:last]
        if not group and cuts:
            continue
        low, high = borders[number : number + 2]
        words = tuple(_within(word, low, high, stretches) for word, _ in group)
        size = sum(count for _, count in group)
        part = dataclasses.replace(segment, start=low / INPUT_SAMPLE_RATE, end=high / INPUT_SAMPLE_RATE, words=words)
        if cuts:
            begins, ends = (one / INPUT_SAMPLE_RATE for one in stretches.spoken(low, high))
            said = "".join(word.text for word in words)
            tokens = tuple(text[at : at + size])
            part = dataclasses.replace(part, start=begins, end=ends, text=said, tokens=tokens)
        yield part
        at += size


def boundaries(timed: Timed, cuts: Sequence[int]) -> list[int]:
    """For each pause, the number of the word that follows: near the pause in time, and after the end of a clause.

    Times alone are not enough: around a pause, the attention is off by a word or two.
    """
    found: list[int] = []
    times = [word.start for word, _ in timed] + [word.end for word, _ in timed[-1:]]

    def cost(number: int, cut: int) -> float:
        clause_ends = number == 0 or timed[number - 1][0].text.endswith(ENDINGS)
        return abs(times[number] - cut / INPUT_SAMPLE_RATE) + (0.0 if clause_ends else MIDST_SECONDS)

    for cut in cuts:
        lowest = found[-1] if found else 0
        found.append(min(range(lowest, len(timed) + 1), key=lambda number: cost(number, cut)))
    return found


def _within(word: Word, low: int, high: int, stretches: Joined) -> Word:
    """The word with times of the speech between ``low`` and ``high``."""
    start, end = samples(word)
    start = min(max(start, low), high)
    start, end = stretches.spoken(start, max(start, min(end, high)))
    return Word(start / INPUT_SAMPLE_RATE, end / INPUT_SAMPLE_RATE, word.text)


def widened(segments: Sequence[SegmentEvent], stretches: Joined, until: float) -> Iterator[SegmentEvent]:
    """The segments of a window, widened to the speech between them that no segment holds.

    ``until``: end of the last segment of the window before.
    """
    for number, one in enumerate(segments):
        low = round(until * INPUT_SAMPLE_RATE)
        start, end = samples(one)
        high = samples(segments[number + 1])[0] if number + 1 < len(segments) else end
        start, end = stretches.reach(max(low, start), end, low, max(high, end))
        until = end / INPUT_SAMPLE_RATE
        yield dataclasses.replace(one, start=min(start / INPUT_SAMPLE_RATE, until), end=until)


def placed(segment: SegmentEvent, stretches: Joined, *, with_words: bool) -> SegmentEvent:
    """The segment with times of the file."""
    words = segment.words if with_words else ()
    start, end = stretches.place(*samples(segment))
    moved = tuple(Word(*stretches.place(*samples(word)), word.text) for word in words)
    return dataclasses.replace(segment, start=start, end=end, words=moved)


def samples(timed: SegmentEvent | Word) -> tuple[int, int]:
    """Numbers of the first sample and of one past the last sample."""
    return round(timed.start * INPUT_SAMPLE_RATE), round(timed.end * INPUT_SAMPLE_RATE)
