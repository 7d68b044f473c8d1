"""Families of speech-to-text models that onnx-asr knows (NeMo Parakeet and Canary, GigaAM, Kaldi, …)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engine import Cancel, ModelSpec
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.messages import INPUT_SAMPLE_RATE, SegmentEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd, Word
from engines import ort

WINDOW_SECONDS = 30.0
"""Longer audio is cut at its quietest moment in the last fifth of each window, and recognised piece by piece."""
LAST_TOKEN_SECONDS = 0.24
"""Tokens have a beginning but no end: the last one of a window is given three of these models' 80 ms steps."""


def load(spec: ModelSpec) -> OnnxAsrModel:
    """Open the folder that the model's files lie in. Raises EngineFailure."""
    import onnx_asr

    family = str(spec.options["family"])
    folder = next(iter(spec.files.values())).parent
    quantization = spec.options.get("quantization")
    try:
        model = onnx_asr.load_model(
            family,
            folder,
            quantization=str(quantization) if quantization else None,
            sess_options=ort.options(spec.threads),
            providers=list(ort.providers(spec.device)),
        )
    except EngineFailure:
        raise
    except Exception as error:
        raise EngineFailure(f"{folder}: onnx-asr cannot open it as {family}: {error}") from error
    return OnnxAsrModel(model)


class OnnxAsrModel:
    """One recogniser of onnx-asr, fed window by window. Times of words where the family gives times of tokens."""

    def __init__(self, model: Any) -> None:
        self._model = model.with_timestamps()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]:
        import numpy

        samples = numpy.frombuffer(b"".join(request.audio.pieces()), "<f4")
        start = 0
        while start < len(samples):
            if cancel.is_set():
                return
            end = start + cut(samples[start:])
            result = self._recognize(samples[start:end], request.language)
            if result.text.strip():
                yield segment(result, start / INPUT_SAMPLE_RATE, end / INPUT_SAMPLE_RATE, request.word_timestamps)
            start = end
        if not cancel.is_set():
            yield TranscriptEnd(request.language or "en", len(samples) / INPUT_SAMPLE_RATE)

    def _recognize(self, samples: Any, language: str | None) -> Any:
        settings = {"language": language} if language else {}
        try:
            return self._model.recognize(samples, sample_rate=INPUT_SAMPLE_RATE, **settings)
        except Exception as error:
            raise EngineFailure(f"onnx-asr failed while recognising: {error}") from error


def segment(result: Any, start: float, end: float, with_words: bool) -> SegmentEvent:
    """One window's result; from its first token to its last where the times of tokens are known.

    Raises NotSupported when words are asked for and are not known.
    """
    words: tuple[Word, ...] = ()
    if result.timestamps:
        times = [start + time for time in result.timestamps]
        end = min(end, times[-1] + LAST_TOKEN_SECONDS)
        start = times[0]
        words = tuple(words_of(result.tokens, times, end))
    elif with_words:
        raise NotSupported("this model gives times of segments, not of words", param="timestamp_granularities")
    logprobs = result.logprobs or [0.0]
    mean = math.fsum(logprobs) / len(logprobs)
    return SegmentEvent(start, end, f" {result.text.strip()}", avg_logprob=mean, words=words if with_words else ())


def words_of(tokens: Sequence[str], times: Sequence[float], end: float) -> Iterator[Word]:
    """Tokens and where they begin, joined to words at leading spaces; a word lasts at most until the next begins."""
    begins = [index for index, token in enumerate(tokens) if index == 0 or token.startswith(" ")]
    for index, after in zip(begins, [*begins[1:], len(tokens)], strict=True):
        text = "".join(tokens[index:after]).strip()
        until = times[after] if after < len(times) else end
        if text:
            yield Word(times[index], max(times[index], min(until, times[after - 1] + LAST_TOKEN_SECONDS)), f" {text}")


def cut(samples: Any) -> int:
    """How many samples the next window takes: all, or up to the quietest 20 ms near its end."""
    import numpy

    window = int(WINDOW_SECONDS * INPUT_SAMPLE_RATE)
    if len(samples) <= window:
        return len(samples)
    frame = INPUT_SAMPLE_RATE // 50
    tail = samples[window * 4 // 5 : window]
    energy = (tail[: len(tail) // frame * frame].reshape(-1, frame) ** 2).sum(axis=1)
    return window * 4 // 5 + int(numpy.argmin(energy)) * frame + frame // 2
