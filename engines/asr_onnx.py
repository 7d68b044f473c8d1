"""Speech to text on ONNX Runtime: Whisper on our own loop, every other family through onnx-asr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure
from edgeserve.messages import TranscribeEvent, TranscribeRequest
from engines import asr_families, ort, pages
from engines.whisper import Whisper
from engines.whisper_decode import Graphs
from engines.whisper_text import Vocabulary


class Model(Protocol):
    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]: ...


class OnnxSpeechToText:
    """Options: ``family``, onnx-asr's name of the model type; without it the files are a converted Whisper.

    Whisper's files: ``encoder``, ``cross``, ``decoder`` with their data, ``config``, ``tokenizer``. Warm, the sessions
    are open and no page of the mapped weights is resident; what activations left on the heap is returned.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._model: Model | None = None
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
        mapped = sum(path.stat().st_size for path in self._data if path.is_file())
        private = int(1.3 * (self.spec.size_bytes - mapped)) + (24 << 20)
        return Footprint(mapped, private, per_request=(32 << 20) + self.spec.size_bytes // 4)

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        return Footprint(mapped=sum(map(pages.resident_mapped, self._data)), private=self._private)

    @property
    def _data(self) -> list[Path]:
        """The files that weights are mapped from."""
        return [path for role, path in self.spec.files.items() if role.endswith("_data")]

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
            name = self.spec.name
            raise EngineFailure(
                f"{name} was converted by an older edgeserve; `edgeserve remove {name}`, then `edgeserve pull {name}`"
            )
        parts = ("encoder", "cross", "decoder")
        encoder, cross, decoder = (
            ort.session(files[part], threads=self.spec.threads, device=self.spec.device, mapped=True) for part in parts
        )
        graphs = Graphs(encoder, cross, decoder, _embeddings(files["decoder_data"], config))
        return Whisper(graphs, Vocabulary.load(files["tokenizer"], files["config"]), config["mel_bins"])


def _embeddings(data: Path, config: Mapping[str, Any]) -> Any:
    """The token embeddings inside the decoder's data, mapped: float32 [vocabulary, width]."""
    import numpy

    shape = (config["vocabulary_size"], config["width"])
    return numpy.memmap(data, numpy.float32, "r", config["embeddings_offset"], shape)
