"""Speech to text on ONNX Runtime: Whisper on our own loop, every other family through onnx-asr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure
from edgeserve.messages import TranscribeEvent, TranscribeRequest
from engines import asr_families, ort, pages
from engines.onnx_prepare import Prepared, prepared
from engines.whisper import Whisper
from engines.whisper_decode import Embeddings, Graphs
from engines.whisper_text import Vocabulary


class Model(Protocol):
    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]: ...


GRAPHS = ("encoder", "cross", "decoder")


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """What is done once for a machine, after a pull: Whisper's graphs. ``tell`` hears how many of how many are done."""
    for done, _ in enumerate(_prepared(spec)):
        tell(done + 1, len(GRAPHS))


def _prepared(spec: ModelSpec) -> Iterator[Prepared]:
    """Whisper's graphs in order; nothing for the families of onnx-asr."""
    if "family" not in spec.options:
        for part in GRAPHS:
            data = [spec.files[f"{part}_data"]] if f"{part}_data" in spec.files else []
            yield prepared(spec.files[part], data=data, device=spec.device)


class OnnxSpeechToText:
    """Options: ``family``, onnx-asr's name of the model type; without it the files are a converted Whisper.

    Whisper's files: ``encoder``, ``cross``, ``decoder`` with their data, ``config``, ``tokenizer``. Warm, the sessions
    are open and no page of the mapped weights is resident; what activations left on the heap is returned.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._model: Model | None = None
        self._data: tuple[Path, ...] = ()  # that weights are mapped from
        self._hot = False
        self._private = 0

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        """Mapped weights; the graphs and the vocabulary as measured; activations of a 30 s window, by the weights.

        Weights inside the graphs are copied to the heap, with what the runtime reorders about 1.3 times their size.
        """
        data = (path for role, path in self.spec.files.items() if role.endswith("_data"))
        mapped = sum(path.stat().st_size for path in data if path.is_file())
        private = int(1.3 * (self.spec.size_bytes - mapped)) + (24 << 20)
        return Footprint(mapped, private, per_request=(32 << 20) + self.spec.size_bytes // 4)

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        return Footprint(mapped=sum(map(pages.resident_mapped, self._data)), private=self._private)

    def open(self) -> None:
        if self._model is not None:
            return
        for path in self.spec.files.values():
            if not path.is_file():
                raise EngineFailure(f"{path}: no such file; pull the model again with `edgeserve pull`")
        before = pages.private_bytes()
        self._model = asr_families.load(self.spec) if "family" in self.spec.options else self._whisper()
        self._private = max(0, pages.private_bytes() - before)

    def heat(self) -> None:
        self.open()
        for path in self._data:
            pages.populate_mapped(path)
        self._hot = True

    def park(self) -> None:
        """Without mapped weights there is nothing to let go of but all: then the same as ``close``."""
        if self._hot and not self._data:
            self.close()
        elif self._hot:
            self._hot = False
            for path in self._data:
                pages.drop_mapped(path)
            ort.release()

    def close(self) -> None:
        self._hot = False
        if self._model is not None:
            self._model = None
            ort.release()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]:
        if self._model is None or not self._hot:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        yield from self._model.transcribe(request, cancel)

    def _whisper(self) -> Whisper:
        files = self.spec.files
        missing = {"encoder", "cross", "decoder", "decoder_data", "config", "tokenizer"} - set(files)
        if missing:
            raise EngineFailure(f"{self.spec.name} lacks {', '.join(sorted(missing))}; pull it again")
        config = json.loads(files["config"].read_text(encoding="utf-8"))
        if "embeddings_offset" not in config:
            raise EngineFailure(f"{self.spec.name} was converted by an older edgeserve; pull it again")
        graphs = list(_prepared(self.spec))
        self._data = tuple(path for graph in graphs for path in graph.data)
        encoder, cross, decoder = (
            graph.session(threads=self.spec.threads, device=self.spec.device) for graph in graphs
        )
        embeddings = Embeddings(files["decoder_data"], config["embeddings_offset"], config["width"])
        vocabulary = Vocabulary.load(files["tokenizer"], files["config"])
        return Whisper(Graphs(encoder, cross, decoder, embeddings), vocabulary, config["mel_bins"])
