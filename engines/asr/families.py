"""Families of speech-to-text models that onnx-asr knows (NeMo Parakeet and Canary, GigaAM, Kaldi, …)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.engines.asr.model import OnnxModel
from edgeserve.engines.asr.rests import Begin, rest
from edgeserve.engines.asr.segments import Rules, frames
from edgeserve.engines.asr.stretches import START, Place, Source, Split, Stretch, Tape, quietest
from edgeserve.engines.onnx import session
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import (
    INPUT_SAMPLE_RATE,
    Rest,
    SegmentEvent,
    TranscribeEvent,
    TranscribeRequest,
    TranscriptEnd,
    Word,
)

WINDOW_SECONDS = 30.0
"""Longest window; longer audio is cut at the quietest moment in the last fifth of each window."""
SPEECH = Rules(silence=frames(0.8), pad=frames(0.2), longest=frames(WINDOW_SECONDS))
"""A pause of 0.8 s ends a segment. The cost grows with the length, so short segments cost no more."""
SHORTEST = INPUT_SAMPLE_RATE // 10
"""Samples that a family gets at least. Some compute no spectrum of fewer than 400, and none of a single one."""
LAST_TOKEN_SECONDS = 0.24
"""Duration of a window's last token: onnx-asr gives no ends of tokens, and three of these models' steps take 240 ms."""


class OnnxAsr(OnnxModel):
    """A model of onnx-asr. ``mapped`` stays empty: its graphs are not prepared, so no pages can be dropped."""

    def folders(self) -> Iterable[Path]:
        """The folder of the model itself, in which onnx-asr looks for files by their names."""
        return {path.parent for role, path in self.spec.files.items() if role != "vad"}

    def open(self) -> OnnxAsrModel:
        import onnx_asr

        spec = self.spec
        family = str(spec.options["family"])
        folder = next(path for role, path in spec.files.items() if role != "vad").parent
        quantization = spec.options.get("quantization")
        split = self.split(SPEECH, windows)
        try:
            model = onnx_asr.load_model(
                family,
                folder,
                quantization=str(quantization) if quantization else None,
                sess_options=session.options(spec.threads),
                providers=list(session.providers(spec.device)),
            )
        except EngineFailure:
            raise
        except Exception as error:
            raise EngineFailure(f"{folder}: onnx-asr cannot open it as {family}: {error}") from error
        return OnnxAsrModel(model, split)


class OnnxAsrModel:
    """An open recogniser of onnx-asr. Words have times where the family gives times of tokens."""

    def __init__(self, model: Any, split: Split) -> None:
        self._model = model.with_timestamps()
        self._split = split

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]:
        """A segment for each stretch, and None for a stretch without words, and in a long silence.

        Raises InvalidRequest for a translation, a prompt or a temperature.
        """
        refuse(request)
        begin = Begin.of(request)
        source = Source(request.audio, cancel, begin.place.at)
        for stretch in self._split(source, begin.place):
            if cancel.is_set():
                return
            if stretch is None:
                yield None
                continue
            if begin.is_far(stretch.start):
                yield rest(stretch.place)
            result = self._recognize(stretch.samples, request.language)
            spoken = bool(result.text.strip())
            yield segment(result, *stretch.seconds, request) if spoken else None
        if not cancel.is_set():
            yield TranscriptEnd(request.language or "en", source.seconds)

    def _recognize(self, samples: Any, language: str | None) -> Any:
        """Raises InvalidRequest for an unknown language. Any other failure is the engine's, which closes it."""
        settings = {"language": language} if language else {}
        try:
            return self._model.recognize(padded(samples), sample_rate=INPUT_SAMPLE_RATE, **settings)
        except Exception as error:
            if isinstance(error, KeyError) and error.args == (f"<|{language}|>",):  # no such token
                raise InvalidRequest(f"this model does not know the language {language!r}", param="language") from error
            raise EngineFailure(f"onnx-asr failed while recognising: {error}") from error


def refuse(request: TranscribeRequest) -> None:
    """Raises InvalidRequest for a setting that these models cannot honour, and names the setting."""
    if request.translate:
        raise InvalidRequest("this model cannot translate; serve a multilingual Whisper", param="model")
    if request.prompt:
        raise InvalidRequest("this model takes no prompt; leave it out", param="prompt")
    if request.temperature:
        raise InvalidRequest("this model always takes the likeliest word; leave temperature out", param="temperature")


def segment(result: Any, start: float, end: float, request: TranscribeRequest) -> SegmentEvent:
    """One window's result, from its first token to its last token where the times of tokens are known.

    Raises InvalidRequest when the request requires words and the times of tokens are not known.
    """
    words: tuple[Word, ...] = ()
    if result.timestamps:
        times = [start + time for time in result.timestamps]
        end = min(end, times[-1] + LAST_TOKEN_SECONDS)
        start = times[0]
        words = tuple(words_of(result.tokens, times, end))
    elif request.word_timestamps and request.words_required:
        raise InvalidRequest("this model gives times of segments, not of words", param="timestamp_granularities")
    logprobs = result.logprobs or [0.0]
    mean = math.fsum(logprobs) / len(logprobs)
    return SegmentEvent(
        start, end, f" {result.text.strip()}", avg_logprob=mean, words=words if request.word_timestamps else ()
    )


def words_of(tokens: Sequence[str], times: Sequence[float], end: float) -> Iterator[Word]:
    """Tokens with their start times, joined to words at leading spaces. A word ends by the start of the next word."""
    begins = [index for index, token in enumerate(tokens) if index == 0 or token.startswith(" ")]
    for index, after in zip(begins, [*begins[1:], len(tokens)], strict=True):
        text = "".join(tokens[index:after]).strip()
        until = times[after] if after < len(times) else end
        if text:
            yield Word(times[index], max(times[index], min(until, times[after - 1] + LAST_TOKEN_SECONDS)), f" {text}")


def windows(arrays: Iterable[Any], place: Place = START) -> Iterator[Stretch | None]:
    """All of the audio in windows, for a model without a voice-activity detector; None for an empty array."""
    tape = Tape(place.at)
    longest = int(WINDOW_SECONDS * INPUT_SAMPLE_RATE)
    for samples in arrays:
        if not len(samples):
            yield None
            continue
        tape.add(samples)
        while tape.end - tape.start > longest:
            window = tape.read(tape.start, tape.start + longest)
            length = quietest(window)
            yield Stretch(tape.start, window[:length])
            tape.forget(tape.start + length)
    if tape.end > tape.start:
        yield Stretch(tape.start, tape.read(tape.start, tape.end))


def padded(samples: Any) -> Any:
    """The samples, of at least SHORTEST: a stretch that is shorter ends in silence."""
    import numpy

    return numpy.pad(samples, (0, max(0, SHORTEST - len(samples))))
