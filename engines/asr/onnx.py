"""Speech to text on ONNX Runtime: Whisper on our own decode loop, and every other family through onnx-asr."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgeserve.engine import Cancel, ModelSpec
from edgeserve.engines.asr.families import OnnxAsr
from edgeserve.engines.asr.model import OnnxModel, Transcriber
from edgeserve.engines.asr.whisper.onnx import WhisperOnnx
from edgeserve.engines.onnx.ladder import OnnxLadder
from edgeserve.engines.onnx.prepare import prepared
from edgeserve.errors import EngineFailure
from edgeserve.messages import DetectRequest, Rest, SpeechChances, TranscribeEvent, TranscribeRequest
from edgeserve.system import heap


def model_of(spec: ModelSpec) -> OnnxModel:
    """The model as its family opens it. Raises ConfigError."""
    return OnnxAsr(spec) if spec.options.get("family") else WhisperOnnx(spec)


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """Prepare the graphs for this machine, once after a pull. ``tell`` gets the number done and the total."""
    graphs = model_of(spec).graphs()
    for done, (path, data) in enumerate(graphs, 1):
        prepared(path, data=data, device=spec.device)
        tell(done, len(graphs))


SLOTS = 2
"""Transcriptions that take turns, a step or stretch each: a short one need not wait for the end of a long one.

Windows of several requests are never decoded together (docs/decisions/0042-transcriptions-in-turns.md).
"""


class OnnxSpeechToText(OnnxLadder[Transcriber]):
    """Speech to text on the rungs of ``OnnxLadder``.

    Options (engines/asr/options.py):

    - ``family``: onnx-asr's name of the model type; without it the files are a converted Whisper.
    - ``quantization``: "none" or "int8"; for Whisper also "auto", which is int8 where int8 loses no accuracy.
    - ``vad``: false transcribes silences, too, and so does a model without the file ``vad``, Silero's detector.
    """

    slots = SLOTS

    def __init__(self, spec: ModelSpec) -> None:
        self._model_files = model_of(spec)
        super().__init__(spec, self._model_files)

    def languages(self) -> tuple[str, ...]:
        return self._model_files.languages()

    @property
    def detects(self) -> bool:
        return self._model_files.detector() is not None

    def detect(self, request: DetectRequest) -> SpeechChances:
        """As ``Detecting.detect``. The detector of the transcriptions: a session computes for several threads."""
        if (vad := self._model_files.vad) is None:
            raise EngineFailure(f"{self.spec.name} has no open detector of speech")
        return vad.detect(request)

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]:
        model = self._opened()
        try:
            yield from model.transcribe(request, cancel)
        finally:
            heap.trim()
