"""Long-form transcription with Whisper: 30 s windows, moved on by the model's own timestamps.

Windows are read from what is left when long silences are taken out: none is spent on nothing, and no silence is taken
for words; times are told in the file's own. Features are made window by window, so that memory does not grow with the
length. The rules and numbers are those of openai/whisper ``transcribe.py``: fall back to higher temperatures when the
text repeats itself or is unlikely, skip windows without speech, carry the text over as the next window's prompt.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.errors import InvalidRequest
from edgeserve.messages import SegmentEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd, Word
from engines.asr.segments import Rules, frames
from engines.asr.stretches import Joined, Source, Split, whole
from engines.asr.whisper import features
from engines.asr.whisper.decode import MAX_POSITIONS, Cancelled, Decoded, Graphs, decode, detect_language
from engines.asr.whisper.parts import parted, pauses, placed, widened
from engines.asr.whisper.vocabulary import SECONDS_PER_TIMESTAMP, Vocabulary
from engines.asr.whisper.words import time_words

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
COMPRESSION_LIMIT = 2.4
LOGPROB_LIMIT = -1.0
NO_SPEECH_LIMIT = 0.6
PROMPT_RESET_TEMPERATURE = 0.5
SPEECH = Rules(silence=frames(2.0), pad=frames(0.4), longest=frames(30.0))
"""Shorter silences help the model to tell sentences apart."""
EDGE_FRAMES = 2
"""Beyond a window's ends, which its first and last spectra reach into."""
ENGLISH_ONLY = "this model knows English only and cannot translate; serve a multilingual Whisper"
FRAMES_PER_TIMESTAMP = round(SECONDS_PER_TIMESTAMP * features.FRAMES_PER_SECOND)


class Whisper:
    """One opened model. ``split`` leaves out what holds no speech."""

    def __init__(self, graphs: Graphs, words: Vocabulary, bands: int, split: Split = whole) -> None:
        self._graphs = graphs
        self._words = words
        self._bands = bands
        self._split = split

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        """Segments window by window, None for a window without any, then the end. Raises InvalidRequest for a language
        the model lacks, and for a translation by one that knows English only."""
        try:
            yield from self._transcribe(request, cancel)
        except Cancelled:
            return

    def _transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        language = self._language(request.language)
        if request.translate and not self._words.languages:
            raise InvalidRequest(ENGLISH_ONLY, param="model")
        carried = self._words.encode(request.prompt) if request.prompt else []
        source = Source(request.audio, cancel)
        sound = Joined(self._split(source))
        at, until = 0, 0.0
        audio: dict[str, Any] = {}
        while (window := self._window(sound, at, cancel)) is not None:
            mel, size = window
            audio.clear()  # one window's keys and values are enough to hold
            audio = self._graphs.listen(mel)
            language = language or detect_language(self._graphs, audio, self._words)
            prompt = self._words.prompt(language, carried, MAX_POSITIONS // 2 - 1, translate=request.translate)
            best = self._best(audio, prompt, request.temperature, cancel)
            if best.no_speech_prob > NO_SPEECH_LIMIT and best.avg_logprob < LOGPROB_LIMIT:
                at += size
                yield None
                continue
            segments, moved = self._segments(best, at, size)
            told = segments
            if request.word_timestamps or any(pauses(segment, sound) for segment in segments):
                told = self._with_words(segments, audio, language, at, size, sound)
            for segment in widened(told, sound, until):
                until = segment.end
                yield placed(segment, sound, with_words=request.word_timestamps)
            if not told:
                yield None
            carried += [token for segment in segments for token in segment.tokens]
            if best.temperature > PROMPT_RESET_TEMPERATURE:
                carried = []
            at += moved
        yield TranscriptEnd(language or "en", source.seconds)

    def _window(self, sound: Joined, at: int, cancel: Cancel) -> tuple[Any, int] | None:
        """Features of the 30 s from frame ``at``, and how many of its frames hold sound; None at the end."""
        before = min(at, EDGE_FRAMES)
        after = at + features.WINDOW_FRAMES + EDGE_FRAMES
        samples = sound.read((at - before) * features.HOP, after * features.HOP)
        if cancel.is_set():
            raise Cancelled
        size = min(features.WINDOW_FRAMES, len(samples) // features.HOP - before)
        if size <= 0:
            return None
        return features.window(features.log_mel(samples, self._bands), before), size

    def _language(self, wanted: str | None) -> str | None:
        if not self._words.languages:
            if wanted not in (None, "en"):
                raise InvalidRequest(f"this model knows English only, not {wanted!r}", param="language")
            return "en"
        if wanted is not None:
            self._words.prompt(wanted, (), 1)
        return wanted

    def _best(self, audio: dict[str, Any], prompt: Sequence[int], temperature: float, cancel: Cancel) -> Decoded:
        """At temperature 0 try higher ones until the text neither repeats itself nor is unlikely.

        When none is good, the likeliest of those that do not repeat themselves, else of all.
        """
        tried: list[Decoded] = []
        varied: list[Decoded] = []
        for one in TEMPERATURES if temperature == 0 else (temperature,):
            decoded = decode(self._graphs, audio, prompt, self._words, one, cancel)
            unlikely = decoded.avg_logprob < LOGPROB_LIMIT
            repeats = compression_ratio(self._words.decode(decoded.tokens)) > COMPRESSION_LIMIT
            if not (repeats or unlikely) or (unlikely and decoded.no_speech_prob > NO_SPEECH_LIMIT):
                return decoded
            (tried if repeats else varied).append(decoded)
        return max(varied or tried, key=lambda one: one.avg_logprob)

    def _segments(self, decoded: Decoded, at: int, size: int) -> tuple[list[SegmentEvent], int]:
        """Cut a window's tokens at its timestamp pairs; also, by how many frames to move on."""
        first = self._words.first_timestamp
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
            moved = size if ends_alone else (tokens[cuts[-1] - 1] - first) * FRAMES_PER_TIMESTAMP
        segments = [self._segment(part, at + low, at + min(high, size), decoded) for part, low, high in pieces]
        return [one for one in segments if one.text.strip() and one.start < one.end], moved or size

    def _with_words(
        self, segments: list[SegmentEvent], audio: dict[str, Any], language: str, at: int, size: int, sound: Joined
    ) -> list[SegmentEvent]:
        """The same segments with their words, aligned once for the whole window, and parted by them."""
        texts = [[token for token in one.tokens if token < self._words.end] for one in segments]
        tokens = [token for text in texts for token in text]
        timed = iter(time_words(self._graphs, audio, self._words, language, tokens, size))
        offset = at / features.FRAMES_PER_SECOND
        done: list[SegmentEvent] = []
        for segment, text in zip(segments, texts, strict=True):
            words, left = [], len(text)
            while left > 0 and (pair := next(timed, None)):
                word, count = pair
                words.append((Word(word.start + offset, word.end + offset, word.text), count))
                left -= count
            done += parted(segment, text, words, sound)
        return done

    def _segment(self, tokens: Sequence[int], low: int, high: int, decoded: Decoded) -> SegmentEvent:
        text = self._words.decode(tokens)
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


def compression_ratio(text: str) -> float:
    """How much shorter zlib makes it; repeated text scores high."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0
