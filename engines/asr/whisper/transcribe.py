"""Long-form transcription with Whisper: 30 s windows, moved on by the model's own timestamps.

Long silences are taken out before windows are read, so that the model spends no window on silence and hears no words in
it. Times are those of the file. Features are computed window by window, so that memory does not grow with the length.

The rules and numbers are those of openai/whisper ``transcribe.py``:

- Higher temperatures are tried when the text repeats itself or is unlikely.
- Windows without speech are skipped.
- The text of a window is the prompt of the next window.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.errors import Cancelled, InvalidRequest
from edgeserve.messages import SegmentEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd, Word
from engines.asr.segments import Rules, frames
from engines.asr.stretches import Joined, Source, Split, whole
from engines.asr.whisper import features, languages
from engines.asr.whisper.decode import CANCELLED, MAX_POSITIONS, Decoded, Graphs, decode, detect_language
from engines.asr.whisper.parts import parted, pauses, placed, widened
from engines.asr.whisper.vocabulary import SECONDS_PER_TIMESTAMP, Vocabulary
from engines.asr.whisper.words import time_words

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
COMPRESSION_LIMIT = 2.4
LOGPROB_LIMIT = -1.0
NO_SPEECH_LIMIT = 0.6
PROMPT_RESET_TEMPERATURE = 0.5
SPEECH = Rules(silence=frames(2.0), pad=frames(0.4), longest=frames(30.0))
"""Silences shorter than 2 s stay: they help the model to separate sentences."""
EDGE_FRAMES = 2
"""Frames beyond a window's ends that its first and last spectra reach into."""
FRAMES_PER_TIMESTAMP = round(SECONDS_PER_TIMESTAMP * features.FRAMES_PER_SECOND)


class Whisper:
    """An open model. ``split`` leaves out long silences."""

    def __init__(self, graphs: Graphs, vocabulary: Vocabulary, bands: int, split: Split = whole) -> None:
        self._graphs = graphs
        self._vocabulary = vocabulary
        self._bands = bands
        self._split = split

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        """Segments window by window, None for a window without segments, then the end.

        Raises InvalidRequest for a language that the model lacks, and for a translation by an English-only model.
        """
        try:
            yield from self._transcribe(request, cancel)
        except Cancelled:
            return

    def _transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        language = languages.checked(request.language, self._vocabulary.languages)
        if request.translate and not self._vocabulary.languages:
            raise InvalidRequest(languages.ENGLISH_ONLY, param="model")
        carried = self._vocabulary.encode(request.prompt) if request.prompt else []
        source = Source(request.audio, cancel)
        stretches = Joined(self._split(source))
        at, until = 0, 0.0
        audio: dict[str, Any] = {}
        while (window := self._window(stretches, at, cancel)) is not None:
            mel, size = window
            audio.clear()  # the last window's keys and values go before the next ones come
            audio = self._graphs.listen(mel)
            language = language or detect_language(self._graphs, audio, self._vocabulary)
            prompt = self._vocabulary.prompt(language, carried, MAX_POSITIONS // 2 - 1, translate=request.translate)
            best = self._best(audio, prompt, request.temperature, cancel)
            if best.no_speech_prob > NO_SPEECH_LIMIT and best.avg_logprob < LOGPROB_LIMIT:
                at += size
                yield None
                continue
            segments, moved = self._segments(best, at, size)
            parts = segments
            if request.word_timestamps or any(pauses(segment, stretches) for segment in segments):
                parts = self._with_words(segments, audio, language, at, size, stretches)
            for segment in widened(parts, stretches, until):
                until = segment.end
                yield placed(segment, stretches, with_words=request.word_timestamps)
            if not parts:
                yield None
            carried += [token for segment in segments for token in segment.tokens]
            if best.temperature > PROMPT_RESET_TEMPERATURE:
                carried = []
            at += moved
        yield TranscriptEnd(language or "en", source.seconds)

    def _window(self, stretches: Joined, at: int, cancel: Cancel) -> tuple[Any, int] | None:
        """Features of the 30 s from frame ``at``, and the number of frames that hold audio; None at the end."""
        before = min(at, EDGE_FRAMES)
        after = at + features.WINDOW_FRAMES + EDGE_FRAMES
        samples = stretches.read((at - before) * features.HOP, after * features.HOP)
        if cancel.is_set():
            raise Cancelled(CANCELLED)
        size = min(features.WINDOW_FRAMES, len(samples) // features.HOP - before)
        if size <= 0:
            return None
        return features.window(features.log_mel(samples, self._bands), before), size

    def _best(self, audio: dict[str, Any], prompt: Sequence[int], temperature: float, cancel: Cancel) -> Decoded:
        """Decode the window; at temperature 0, try higher temperatures until the text is good.

        A good text is likely and does not repeat itself. Without a good text, the likeliest text without repetitions is
        taken, else the likeliest text.
        """
        tried: list[Decoded] = []
        varied: list[Decoded] = []
        for one in TEMPERATURES if temperature == 0 else (temperature,):
            decoded = decode(self._graphs, audio, prompt, self._vocabulary, one, cancel)
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
            moved = size if ends_alone else (tokens[cuts[-1] - 1] - first) * FRAMES_PER_TIMESTAMP
        segments = [self._segment(part, at + low, at + min(high, size), decoded) for part, low, high in pieces]
        return [one for one in segments if one.text.strip() and one.start < one.end], moved or size

    def _with_words(
        self,
        segments: list[SegmentEvent],
        audio: dict[str, Any],
        language: str,
        at: int,
        size: int,
        stretches: Joined,
    ) -> list[SegmentEvent]:
        """The segments with their words, parted at pauses. Words are aligned once for the whole window."""
        texts = [[token for token in one.tokens if token < self._vocabulary.end] for one in segments]
        tokens = [token for text in texts for token in text]
        timed = iter(time_words(self._graphs, audio, self._vocabulary, language, tokens, size))
        offset = at / features.FRAMES_PER_SECOND
        done: list[SegmentEvent] = []
        for segment, text in zip(segments, texts, strict=True):
            words, left = [], len(text)
            while left > 0 and (pair := next(timed, None)):
                word, count = pair
                words.append((Word(word.start + offset, word.end + offset, word.text), count))
                left -= count
            done += parted(segment, text, words, stretches)
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


def compression_ratio(text: str) -> float:
    """Bytes of the text for each byte after compression with zlib; high for repeated text."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0
