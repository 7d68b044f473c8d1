"""Speech to text on ONNX Runtime: Whisper on our own decode loop, and every other family through onnx-asr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from edgeserve.engine import Access, Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure
from edgeserve.messages import TranscribeEvent, TranscribeRequest
from edgeserve.system import heap, pages
from engines import model_files
from engines.asr.families import OnnxAsr
from engines.asr.model import OnnxModel, Transcriber
from engines.asr.whisper.onnx import WhisperOnnx
from engines.onnx import session
from engines.onnx.prepare import prepared


def model_of(spec: ModelSpec) -> OnnxModel:
    """The model as its family opens it. Raises ConfigError."""
    return OnnxAsr(spec) if spec.options.get("family") else WhisperOnnx(spec)


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """Prepare the graphs for this machine, once after a pull. ``tell`` gets the number done and the total."""
    graphs = model_of(spec).graphs()
    for done, (path, data) in enumerate(graphs, 1):
        prepared(path, data=data, device=spec.device)
        tell(done, len(graphs))


class OnnxSpeechToText:
    """The residency ladder of a model on ONNX Runtime.

    Options (engines/asr/options.py):

    - ``family``: onnx-asr's name of the model type; without it the files are a converted Whisper.
    - ``quantization``: "none" or "int8"; for Whisper also "auto", which is int8 where int8 loses no accuracy.
    - ``vad``: false transcribes silences, too, and so does a model without the file ``vad``, Silero's detector.

    Warm, the sessions are open and no page of the mapped weights is resident. The heap pages that activations left
    free are returned. The memory that importing the runtime takes is never returned, serves other engines too, and
    is not counted.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._files = model_of(spec)
        self._model: Transcriber | None = None
        self._hot = False
        self._private = 0

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        return self._files.estimate()

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        return Footprint(mapped=pages.resident_mapped(*self._files.mapped), private=self._private)

    def prefetch_files(self) -> Iterable[Path]:
        return self._files.prefetch_files()

    def access(self) -> Access:
        return Access(read=tuple(self._files.folders()), gpu=session.uses_gpu(self.spec.device))

    def open(self) -> None:
        if self._model is not None:
            return
        model_files.require(self.spec.files.values())
        session.load()  # first: the runtime's own memory stays when the model goes, and is not the model's
        before = pages.private_bytes()
        self._model = self._files.open()
        session.release()
        self._private = max(0, pages.private_bytes() - before)

    def heat(self) -> None:
        self.open()
        pages.populate_mapped(*self._files.mapped)
        self._hot = True

    def park(self) -> None:
        """Drop the mapped weights. A model without mapped weights is closed: it has no other memory to return."""
        if self._hot and not self._files.mapped:
            self.close()
        elif self._hot:
            self._hot = False
            pages.drop_mapped(*self._files.mapped)
            session.release()

    def close(self) -> None:
        self._hot = False
        if self._model is not None:
            self._model = None
            self._files.close()
            session.release()

    def languages(self) -> tuple[str, ...]:
        return self._files.languages()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        if self._model is None or not self._hot:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        try:
            yield from self._model.transcribe(request, cancel)
        finally:
            heap.trim()
