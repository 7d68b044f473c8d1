"""Speech to text on ONNX Runtime: Whisper on our own loop, every other family through onnx-asr."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import ConfigError, EngineFailure
from edgeserve.messages import TranscribeEvent, TranscribeRequest
from edgeserve.system import heap, pages
from engines import model_files
from engines.asr import families
from engines.asr.segments import Rules
from engines.asr.stretches import Split, whole
from engines.asr.vad import Vad
from engines.asr.whisper import files as whisper_files
from engines.asr.whisper import languages as whisper_languages
from engines.asr.whisper import transcribe as whisper
from engines.asr.whisper.decode import MAX_POSITIONS, Embeddings, Graphs
from engines.asr.whisper.transcribe import Whisper
from engines.asr.whisper.vocabulary import Vocabulary
from engines.onnx import session
from engines.onnx.prepare import Prepared, files_at_hand, prepared


class Model(Protocol):
    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]: ...


SESSIONS_BYTES, VAD_BYTES, REST_BYTES = 4 << 20, 3 << 19, 12 << 20
"""Measured: private memory of Whisper's open sessions and vocabulary; of the voice-activity detector's session; beside
activations, of a window's samples, features, past tokens and figures."""
ENCODER_STATES = 21
"""Measured: arrays as large as the encoder's output that it needs at once, in float32; in int8 20."""


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """What is done once for a machine, after a pull: Whisper's graphs. ``tell`` hears how many of how many are done."""
    for done, _ in enumerate(_prepared(spec)):
        tell(done + 1, len(whisper_files.PARTS))


def _prepared(spec: ModelSpec) -> Iterator[Prepared]:
    """Whisper's graphs in order; nothing for the families of onnx-asr."""
    graphs = whisper_files.graphs(spec) if not spec.options.get("family") else ()
    return (prepared(path, data=data, device=spec.device) for path, data in graphs)


def window_bytes(shape: Mapping[str, Any]) -> int:
    """Activations of 30 s of audio at their peak, by a converted Whisper's ``config``. In int8 they are as large.

    1. The encoder's, in arrays [1500, width].
    2. Or the decoder's over the longest prompt: each layer's keys and values of the audio; attention [tokens, 1500] of
       one layer's heads before and after its softmax, and of all alignment heads one by one and joined.
    """
    frames, width = 1500, int(shape.get("width", 0))
    states = 4 * frames * width
    heads = int(shape.get("decoder_heads", 0)) + len(shape.get("alignment_heads", ()))
    attention = 2 * heads * 4 * frames * (MAX_POSITIONS // 2)
    decoder = 2 * int(shape.get("decoder_layers", 0)) * states + attention
    return max(ENCODER_STATES * states, decoder) + REST_BYTES


class OnnxSpeechToText:
    """Options: ``family``, onnx-asr's name of the model type; without it the files are a converted Whisper.
    ``quantization``: for Whisper "none", "int8", or "auto", which is int8 where that loses no accuracy. ``vad`` false
    listens to silences, too; so does a model without the file ``vad``, Silero's detector.

    Whisper's files: ``encoder``, ``cross``, ``decoder`` with their data, ``config``, ``tokenizer``. Warm, the sessions
    are open and no page of the mapped weights is resident; what activations left on the heap is returned.
    """

    def __init__(self, spec: ModelSpec) -> None:
        if not spec.options.get("family"):
            whisper_files.check(spec)
        self.spec = spec
        self._model: Model | None = None
        self._data: tuple[Path, ...] = ()  # that weights are mapped from
        self._weights: FileIO | None = None
        self._hot = False
        self._private = 0

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        """Whisper's weights are mapped; measured: the sessions and what one window takes (``window_bytes``).

        Weights inside the graphs are copied to the heap, with what the runtime reorders about 1.3 times their size.
        What the import of the runtime takes is never returned, serves other engines too, and is not counted.
        """
        vad = VAD_BYTES if self._vad() else 0
        if window := self._window_bytes():
            mapped = sum(path.stat().st_size for path in whisper_files.weights(self.spec))
            return Footprint(mapped, SESSIONS_BYTES + vad, window)
        files = {role: path for role, path in self.spec.files.items() if role != "vad" and path.is_file()}
        own = sum(path.stat().st_size for path in files.values())
        mapped = sum(path.stat().st_size for role, path in files.items() if role.endswith("_data"))
        private = int(1.3 * (own - mapped)) + vad + (8 << 20)
        return Footprint(mapped, private, per_request=(32 << 20) + own // 4)

    def _window_bytes(self) -> int:
        """0 for another family."""
        shape = self._shape()
        return window_bytes(shape) if shape else 0

    def _shape(self) -> dict[str, Any]:
        """What Whisper's configuration says; nothing before it is pulled, or of another family."""
        config = self.spec.files.get("config")
        if self.spec.options.get("family") or config is None or not config.is_file():
            return {}
        return whisper_files.shape(config)

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        return Footprint(mapped=pages.resident_mapped(*self._data), private=self._private)

    def prefetch_files(self) -> Iterable[Path]:
        """What is read on the way up: graphs as prepared rather than as pulled."""
        if not set(whisper_files.PARTS) <= set(self.spec.files) or self.spec.options.get("family"):
            return self.spec.files.values()
        own = [path for role, path in self.spec.files.items() if role in ("config", "tokenizer", "vad")]
        graphs = whisper_files.graphs(self.spec)
        return [*own, *(path for graph, data in graphs for path in files_at_hand(graph, data))]

    def open(self) -> None:
        if self._model is not None:
            return
        model_files.require(self.spec.files.values())
        session.load()  # what the runtime itself takes stays when the model goes
        before = pages.private_bytes()
        self._model = self._family() if self.spec.options.get("family") else self._whisper()
        session.release()
        self._private = max(0, pages.private_bytes() - before)

    def heat(self) -> None:
        self.open()
        pages.populate_mapped(*self._data)
        self._hot = True

    def park(self) -> None:
        """Without mapped weights there is nothing to let go of but all: then the same as ``close``."""
        if self._hot and not self._data:
            self.close()
        elif self._hot:
            self._hot = False
            pages.drop_mapped(*self._data)
            session.release()

    def close(self) -> None:
        self._hot = False
        if self._model is not None:
            self._model = None
            if self._weights is not None:
                self._weights.close()
            session.release()

    def languages(self) -> tuple[str, ...]:
        """Whisper's; those of other families nobody tells."""
        vocabulary = self._shape().get("vocabulary_size")
        return whisper_languages.codes(vocabulary) if isinstance(vocabulary, int) else ()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        if self._model is None or not self._hot:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        try:
            yield from self._model.transcribe(request, cancel)
        finally:
            heap.trim()

    def _vad(self) -> Path | None:
        """The detector's file, where there is one and it is wanted. Raises ConfigError."""
        wanted = self.spec.options.get("vad", True)
        if not isinstance(wanted, bool):
            raise ConfigError(f"[asr] vad = {wanted!r}: expected true or false")
        return self.spec.files.get("vad") if wanted else None

    def _split(self, rules: Rules, otherwise: Split) -> Split:
        path = self._vad()
        return functools.partial(Vad(path).stretches, rules=rules) if path else otherwise

    def _family(self) -> Model:
        return families.load(self.spec, self._split(families.SPEECH, families.windows))

    def _whisper(self) -> Whisper:
        files = self.spec.files
        graphs = list(_prepared(self.spec))
        config = json.loads(files["config"].read_text(encoding="utf-8"))
        if "embeddings_offset" not in config:
            raise EngineFailure(f"{self.spec.name} was converted by an older edgeserve; pull it again")
        vocabulary = Vocabulary.load(files["tokenizer"], files["config"])
        encoder, cross, decoder = (
            graph.session(threads=self.spec.threads, device=self.spec.device, reuse=number == 0)
            for number, graph in enumerate(graphs)
        )
        self._data = tuple(path for graph in graphs for path in graph.data)
        self._weights = files["decoder_data"].open("rb", buffering=0)
        embeddings = Embeddings(self._weights, config["embeddings_offset"], config["width"])
        split = self._split(whisper.SPEECH, whole)
        return Whisper(Graphs(encoder, cross, decoder, embeddings), vocabulary, config["mel_bins"], split)
