"""Whisper's segments in the file's own time, parted at the pauses in the middle of one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from edgeserve.messages import INPUT_SAMPLE_RATE, SegmentEvent, Word
from engines.asr.stretches import Joined

ENDINGS = tuple(".,;:?!…。、？！")
MIDST_SECONDS = 1.5
"""How much farther from a pause the end of a clause may be than another word, and is still taken to be at it."""
Timed = Sequence[tuple[Word, int]]
"""A segment's words, each with how many of its text tokens it takes."""


def pauses(segment: SegmentEvent, sound: Joined) -> list[int]:
    return sound.pauses(*samples(segment))


def parted(segment: SegmentEvent, text: Sequence[int], timed: Timed, sound: Joined) -> Iterator[SegmentEvent]:
    """The segment with its words, as one or, where it goes over pauses, as its parts, each with the times of the speech
    between two pauses; ``text``: its tokens without timestamps."""
    start, end = samples(segment)
    cuts = pauses(segment, sound) if timed else []
    edges = [0, *boundaries(timed, cuts), len(timed)]
    borders = [start, *cuts, end]
    at = 0
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        group = timed[first:last]
        if not group and cuts:
            continue
        low, high = borders[number : number + 2]
        words = tuple(_within(word, low, high, sound) for word, _ in group)
        size = sum(count for _, count in group)
        part = dataclasses.replace(segment, start=low / INPUT_SAMPLE_RATE, end=high / INPUT_SAMPLE_RATE, words=words)
        if cuts:
            begins, ends = (one / INPUT_SAMPLE_RATE for one in sound.spoken(low, high))
            said = "".join(word.text for word in words)
            tokens = tuple(text[at : at + size])
            part = dataclasses.replace(part, start=begins, end=ends, text=said, tokens=tokens)
        yield part
        at += size


def boundaries(timed: Timed, cuts: Sequence[int]) -> list[int]:
    """For each pause the number of the word that follows it: near it in time, and where a clause ends. Times alone do
    not tell: around a pause the attention wanders by a word or two."""
    found: list[int] = []
    times = [word.start for word, _ in timed] + [word.end for word, _ in timed[-1:]]

    def cost(number: int, cut: int) -> float:
        clause_ends = number == 0 or timed[number - 1][0].text.endswith(ENDINGS)
        return abs(times[number] - cut / INPUT_SAMPLE_RATE) + (0.0 if clause_ends else MIDST_SECONDS)

    for cut in cuts:
        lowest = found[-1] if found else 0
        found.append(min(range(lowest, len(timed) + 1), key=lambda number: cost(number, cut)))
    return found


def _within(word: Word, low: int, high: int, sound: Joined) -> Word:
    start, end = samples(word)
    start = min(max(start, low), high)
    start, end = sound.spoken(start, max(start, min(end, high)))
    return Word(start / INPUT_SAMPLE_RATE, end / INPUT_SAMPLE_RATE, word.text)


def widened(segments: Sequence[SegmentEvent], sound: Joined, until: float) -> Iterator[SegmentEvent]:
    """The segments of a window, the last before which ended at ``until``, with the speech between them that no other
    holds."""
    for number, one in enumerate(segments):
        low = round(until * INPUT_SAMPLE_RATE)
        start, end = samples(one)
        high = samples(segments[number + 1])[0] if number + 1 < len(segments) else end
        start, end = sound.reach(max(low, start), end, low, max(high, end))
        until = end / INPUT_SAMPLE_RATE
        yield dataclasses.replace(one, start=min(start / INPUT_SAMPLE_RATE, until), end=until)


def placed(segment: SegmentEvent, sound: Joined, *, with_words: bool) -> SegmentEvent:
    """The same in the file's own time."""
    words = segment.words if with_words else ()
    start, end = sound.place(*samples(segment))
    told = tuple(Word(*sound.place(*samples(word)), word.text) for word in words)
    return dataclasses.replace(segment, start=start, end=end, words=told)


def samples(what: SegmentEvent | Word) -> tuple[int, int]:
    return round(what.start * INPUT_SAMPLE_RATE), round(what.end * INPUT_SAMPLE_RATE)
