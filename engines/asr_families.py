"""Families of speech-to-text models that onnx-asr knows (NeMo Parakeet and Canary, GigaAM, Kaldi, …)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgeserve.engine import Cancel, ModelSpec
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.messages import INPUT_SAMPLE_RATE, SegmentEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd
from engines import ort

WINDOW_SECONDS = 30.0
"""Longer audio is cut at its quietest moment in the last fifth of each window, and recognised piece by piece."""


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
    except Exception as error:
        raise EngineFailure(f"{folder}: onnx-asr cannot open it as {family}: {error}") from error
    return OnnxAsrModel(model)


class OnnxAsrModel:
    """One recogniser of onnx-asr, fed window by window."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]:
        import numpy

        if request.word_timestamps:
            raise NotSupported("this engine gives times of segments, not of words", param="timestamp_granularities")
        samples = numpy.frombuffer(request.pcm, "<f4")
        settings = {"language": request.language} if request.language else {}
        start = 0
        while start < len(samples):
            if cancel.is_set():
                return
            end = start + cut(samples[start:])
            text = str(self._model.recognize(samples[start:end], sample_rate=INPUT_SAMPLE_RATE, **settings)).strip()
            if text:
                yield SegmentEvent(start / INPUT_SAMPLE_RATE, end / INPUT_SAMPLE_RATE, f" {text}")
            start = end
        if not cancel.is_set():
            yield TranscriptEnd(request.language or "en", request.duration)


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
