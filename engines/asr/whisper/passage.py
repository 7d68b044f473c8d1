"""One passage of the audio, transcribed window by window: the model's own timestamps move on from one to the next.

The rules and numbers are those of openai/whisper ``transcribe.py``:

- Higher temperatures are tried when the text repeats itself or is unlikely.
- Windows without speech are skipped.
- The text of a window is the prompt of the next window of the passage.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from edgeserve.dataclass import dataclass
from edgeserve.engines.asr.whisper import features
from edgeserve.engines.asr.whisper.cuts import Passage
from edgeserve.engines.asr.whisper.decode import Decoded, MayEnd
from edgeserve.engines.asr.whisper.graphs import MAX_POSITIONS, Audio, Graphs
from edgeserve.engines.asr.whisper.joined import Joined
from edgeserve.engines.asr.whisper.languages import Language
from edgeserve.engines.asr.whisper.parts import parted, pauses
from edgeserve.engines.asr.whisper.vocabulary import SECONDS_PER_TIMESTAMP, Vocabulary
from edgeserve.engines.asr.whisper.words import time_words
from edgeserve.messages import SegmentEvent, Word

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
COMPRESSION_LIMIT = 2.4
LOGPROB_LIMIT = -1.0
NO_SPEECH_LIMIT = 0.6
PROMPT_RESET_TEMPERATURE = 0.5
EDGE_FRAMES = 2
"""Frames beyond a window's ends that its first and last spectra reach into."""
FRAMES_PER_TIMESTAMP = round(SECONDS_PER_TIMESTAMP * features.FRAMES_PER_SECOND)
PROMPT_TOKENS = MAX_POSITIONS // 2 - 1
"""Tokens of the text so far that prompt the next window, at most."""
LEFT_SECONDS = 0.3
"""Speech that is left at the end of a passage and gets a window of its own, at least."""


class Attempt(NamedTuple):
    """A text that a window wants decoded."""

    prompt: Sequence[int]
    temperature: float
    may_end: MayEnd


class Seat(Protocol):
    """The place of a passage among those that are decoded together."""

    def listen(self, mel: Any) -> None:
        """Features [1, bands, 3000] of the window to decode next. Raises Cancelled."""
        ...

    def audio(self) -> Audio:
        """Keys and values of the window, until another passage is given a place."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings of a request. ``prompt``: tokens in front of its first window."""

    language: Language
    prompt: Sequence[int]
    temperature: float
    translate: bool
    words: bool


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of an open model that a passage needs. ``bands``: of its features."""

    graphs: Graphs
    vocabulary: Vocabulary
    bands: int


@dataclass(slots=True)
class Reading:
    """A passage under way.

    - at: frame of the window that is decoded, or of the next one
    - end: frame behind the passage; None: the end of the audio
    - carried: the last tokens of the text before that window
    - ready: the next window is known, and not listened to yet
    - found: windows that were decoded and not taken yet, each as its segments with times of the joined stretches
    - work: gives attempts, and takes their results
    """

    at: int
    end: int | None
    carried: Sequence[int]
    work: Generator[Attempt | None, Decoded, None] = field(init=False)
    found: deque[list[SegmentEvent]] = field(default_factory=deque)
    ready: bool = False
    done: bool = False

    def go_on(self, decoded: Decoded | None) -> Attempt | None:
        """The next attempt; None at the end of a window, before the next one is listened to, and of the passage.
        None in a long silence, too.

        ``decoded``: result of the attempt before, if any.
        """
        try:
            return next(self.work) if decoded is None else self.work.send(decoded)
        except StopIteration:
            self.done = True
            return None


def read(model: Model, stretches: Joined, passage: Passage, wanted: Wanted, seat: Seat) -> Reading:
    """A passage to transcribe at a seat."""
    reading = Reading(passage.start + passage.read, passage.end, wanted.prompt)
    reading.work = _Windows(model, stretches, wanted, seat).read(reading, passage.start)
    return reading


class _Windows:
    def __init__(self, model: Model, stretches: Joined, wanted: Wanted, seat: Seat) -> None:
        self._model, self._vocabulary = model, model.vocabulary
        self._stretches, self._wanted, self._seat = stretches, wanted, seat

    def read(self, reading: Reading, first: int) -> Generator[Attempt | None, Decoded, None]:
        """``first``: frame at which the passage begins."""
        end = reading.end
        while True:
            for _ in self._stretches.hear(_until(reading.at, end)):
                yield None
            if (window := self._window(first, reading.at, end)) is None:
                return
            reading.ready = True
            yield None
            reading.ready = False
            mel, size = window
            self._seat.listen(mel)
            language = self._wanted.language(self._seat.audio())
            carried, translate = reading.carried, self._wanted.translate
            prompt = self._vocabulary.prompt(language, carried, PROMPT_TOKENS, translate=translate)
            best = yield from self._best(prompt, functools.partial(self._may_end, reading.at, size, end))
            if best.no_speech_prob > NO_SPEECH_LIMIT and best.avg_logprob < LOGPROB_LIMIT:
                reading.found.append([])
                reading.at += size
                yield None
                continue
            segments, moved = self._segments(best, reading.at, size)
            parts = segments
            if self._wanted.words or any(pauses(segment, self._stretches) for segment in segments):
                parts = self._with_words(segments, language, reading.at, size)
            reading.found.append(parts)
            said = [token for segment in segments for token in segment.tokens]
            reset = best.temperature > PROMPT_RESET_TEMPERATURE
            reading.carried = [] if reset else [*carried, *said][-PROMPT_TOKENS:]
            reading.at += moved
            yield None

    def _window(self, first: int, at: int, end: int | None) -> tuple[Any, int] | None:
        """Features of the 30 s from frame ``at``, and the number of frames that hold audio; None at the end.

        ``first``, ``end``: frames of the passage.
        """
        before = min(at, EDGE_FRAMES)
        longest = _longest(at, end)
        samples = self._stretches.read((at - before) * features.HOP, _until(at, end))
        size = min(longest, len(samples) // features.HOP - before)
        if size <= 0:
            return None
        if first < at and size < features.WINDOW_FRAMES and not self._spoken(at, at + size, undetected=True):
            return None
        mel = features.log_mel(samples, self._model.bands)[:, : before + longest]
        return features.window(mel, before), size

    def _spoken(self, at: int, end: int, *, undetected: bool = False) -> bool:
        """Whether enough speech is left to be heard; ``undetected``: the answer without a detector."""
        speech = self._stretches.speech_seconds(at * features.HOP, end * features.HOP)
        return undetected if speech is None else speech >= LEFT_SECONDS

    def _may_end(self, at: int, size: int, end: int | None, said: Sequence[int]) -> bool:
        """False for the text of a passage's last window that leaves out speech behind its last timestamp.

        A window of its own for the rest would take as long as one of 30 s.
        """
        first = self._vocabulary.first_timestamp
        if end is None or at + size < end - 1 or len(said) < 2 or min(said[-2:]) < first:
            return True
        told = min(at + (said[-1] - first) * FRAMES_PER_TIMESTAMP, end)
        return not self._spoken(told, end)

    def _best(self, prompt: Sequence[int], may_end: MayEnd) -> Generator[Attempt | None, Decoded, Decoded]:
        """Decode the window; at temperature 0, try higher temperatures until the text is good.

        A good text is likely and does not repeat itself. Without a good text, the likeliest text without repetitions is
        taken, else the likeliest text.
        """
        tried: list[Decoded] = []
        varied: list[Decoded] = []
        for one in TEMPERATURES if self._wanted.temperature == 0 else (self._wanted.temperature,):
            decoded = yield Attempt(prompt, one, may_end)
            unlikely = decoded.avg_logprob < LOGPROB_LIMIT
            repeats = compression_ratio(self._vocabulary.decode(decoded.tokens)) > COMPRESSION_LIMIT
            if not (repeats or unlikely) or (unlikely and decoded.no_speech_prob > NO_SPEECH_LIMIT):
                return decoded
            (tried if repeats else varied).append(decoded)
        return max(varied or tried, key=lambda one: one.avg_logprob)

    def _segments(self, decoded: Decoded, at: int, size: int) -> tuple[list[SegmentEvent], int]:
        """Segments between a window's timestamp pairs, and the number of frames to the next window."""
        first = self._vocabulary.first_timestamp
        tokens = list(decoded.tokens)
        stamps = [token >= first for token in tokens]
        cuts = [index for index in range(1, len(tokens)) if stamps[index - 1] and stamps[index]]
        ends_alone = stamps[-2:] == [False, True]
        if not cuts:
            last = [token for token, stamp in zip(tokens, stamps, strict=True) if stamp]
            length = size
            if last and last[-1] != first:
                length = (last[-1] - first) * FRAMES_PER_TIMESTAMP
            pieces = [(tokens, 0, length)]
            moved = size
        else:
            bounds = [0, *cuts, *([len(tokens)] if ends_alone else [])]
            pieces = [
                (part, (part[0] - first) * FRAMES_PER_TIMESTAMP, (part[-1] - first) * FRAMES_PER_TIMESTAMP)
                for part in (tokens[low:high] for low, high in itertools.pairwise(bounds))
            ]
            told = (tokens[cuts[-1] - 1] - first) * FRAMES_PER_TIMESTAMP
            moved = size if ends_alone else min(told, size)  # a time may lie in the silence behind a short window
        segments = [self._segment(part, at + low, at + min(high, size), decoded) for part, low, high in pieces]
        return [one for one in segments if one.text.strip() and one.start < one.end], moved or size

    def _with_words(self, segments: list[SegmentEvent], language: str, at: int, size: int) -> list[SegmentEvent]:
        """The segments with their words, parted at pauses. Words are aligned once for the whole window."""
        texts = [[token for token in one.tokens if token < self._vocabulary.end] for one in segments]
        tokens = [token for text in texts for token in text]
        audio = self._seat.audio()
        timed = iter(time_words(self._model.graphs, audio, self._vocabulary, language, tokens, size))
        offset = at / features.FRAMES_PER_SECOND
        done: list[SegmentEvent] = []
        for segment, text in zip(segments, texts, strict=True):
            words, left = [], len(text)
            while left > 0 and (pair := next(timed, None)):
                word, count = pair
                words.append((Word(word.start + offset, word.end + offset, word.text), count))
                left -= count
            done += parted(segment, text, words, self._stretches)
        return done

    def _segment(self, tokens: Sequence[int], low: int, high: int, decoded: Decoded) -> SegmentEvent:
        text = self._vocabulary.decode(tokens)
        return SegmentEvent(
            start=low / features.FRAMES_PER_SECOND,
            end=high / features.FRAMES_PER_SECOND,
            text=text,
            tokens=tuple(tokens),
            temperature=decoded.temperature,
            avg_logprob=decoded.avg_logprob,
            compression_ratio=compression_ratio(text),
            no_speech_prob=decoded.no_speech_prob,
        )


def _longest(at: int, end: int | None) -> int:
    """Frames of the window from ``at``, where the audio is long enough. ``end``: of the passage."""
    return features.WINDOW_FRAMES if end is None else min(features.WINDOW_FRAMES, end - at)


def _until(at: int, end: int | None) -> int:
    """The place up to which the window from ``at`` reads the audio."""
    return (at + _longest(at, end) + EDGE_FRAMES) * features.HOP


def compression_ratio(text: str) -> float:
    """Bytes of the text for each byte after compression with zlib; high for repeated text."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0
