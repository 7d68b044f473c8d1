"""Whisper on ONNX Runtime: a checkpoint that edgeserve converted, opened as three graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engines.asr.model import OnnxModel
from edgeserve.engines.asr.stretches import whole
from edgeserve.engines.asr.whisper import files as whisper_files
from edgeserve.engines.asr.whisper import languages
from edgeserve.engines.asr.whisper.features import WINDOW_FRAMES
from edgeserve.engines.asr.whisper.graphs import MAX_POSITIONS, Embeddings, Graphs
from edgeserve.engines.asr.whisper.transcribe import SPEECH, Whisper
from edgeserve.engines.asr.whisper.vocabulary import Vocabulary
from edgeserve.engines.onnx.crowd import Crowd
from edgeserve.engines.onnx.prepare import files_at_hand, prepared
from edgeserve.errors import EngineFailure

SESSIONS_BYTES = 4 << 20
"""Private memory of the open sessions and the vocabulary, measured."""
WINDOW_BYTES = 12 << 20
"""Memory of one window beside activations, measured: samples, features, past tokens and figures."""
ENCODER_STATES = 21
"""Arrays as large as the encoder's output that the encoder holds at once, measured: 21 in float32, 20 in int8."""
ENCODER_FRAMES = WINDOW_FRAMES // 2
"""Positions of the encoder's output for one window."""
CACHES = 3
"""Caches of the longest text that a step holds at once, measured: the past, joined with the new token, and the copy."""
MOST_PLACES, MOST_BYTES = 4, 80 << 20
"""Windows that are decoded together by default, and the memory of those beyond the first, at most."""


class WhisperOnnx(OnnxModel):
    """Files: ``encoder``, ``cross``, ``decoder`` with their data, ``config``, ``tokenizer``. Weights are mapped."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        whisper_files.check(spec)
        self._weights: FileIO | None = None

    def open(self) -> Whisper:
        files = self.spec.files
        graphs = [prepared(path, data=data, device=self.spec.device) for path, data in self.graphs()]
        config = whisper_files.shape(self.spec)
        if config.get("format") != whisper_files.FORMAT:
            raise EngineFailure(f"{self.spec.name} was converted by an older edgeserve; pull it again")
        vocabulary = Vocabulary.load(files["tokenizer"], files["config"])
        crowd = Crowd(self.spec.threads)
        encoder, cross, decoder = (
            graph.sessions(crowd, device=self.spec.device, reuse=number < 2) for number, graph in enumerate(graphs)
        )
        split = self.split(SPEECH, whole)
        self.mapped = tuple(path for graph in graphs for path in graph.data)
        self._weights = files["decoder_data"].open("rb", buffering=0)
        embeddings = Embeddings(self._weights, config["embeddings_offset"], config["width"])
        count = places(config, self.spec.options)
        model = Graphs(encoder, cross, decoder, embeddings, kept_beside(config, count))
        return Whisper(model, vocabulary, config["mel_bins"], split, count, crowd)

    def close(self) -> None:
        super().close()
        if self._weights is not None:
            self._weights.close()

    def estimate(self) -> Footprint:
        """Mapped weights, open sessions and one window; by the sizes of the files without a ``config``."""
        shape = whisper_files.shape(self.spec)
        if not shape:
            return super().estimate()
        mapped = sum(path.stat().st_size for path in whisper_files.weights(self.spec))
        request = request_bytes(shape, places(shape, self.spec.options))
        return Footprint(mapped, SESSIONS_BYTES + self.detector_bytes(), request)

    def languages(self) -> tuple[str, ...]:
        vocabulary = whisper_files.shape(self.spec).get("vocabulary_size")
        return languages.codes(vocabulary) if isinstance(vocabulary, int) else ()

    def prefetch_files(self) -> Iterable[Path]:
        """Graphs as prepared rather than as pulled."""
        if not set(whisper_files.PARTS) <= set(self.spec.files):
            return super().prefetch_files()
        own = [path for role, path in self.spec.files.items() if role in ("config", "tokenizer", "vad")]
        return [*own, *(path for graph, data in self.graphs() for path in files_at_hand(graph, data))]

    def graphs(self) -> Sequence[tuple[Path, Sequence[Path]]]:
        """The encoder, the cross projection and the decoder, in this order."""
        return list(whisper_files.graphs(self.spec))


def places(shape: Mapping[str, Any], options: Mapping[str, object]) -> int:
    """Windows that are decoded together, at most: the option ``windows``, or as many as pay."""
    chosen = options.get("windows", "auto")
    if isinstance(chosen, int):
        return chosen
    return max(1, min(MOST_PLACES, 1 + MOST_BYTES // max(1, _place_bytes(shape))))


def request_bytes(shape: Mapping[str, Any], places: int) -> int:
    """Memory of a long sound at its peak, in bytes."""
    return window_bytes(shape) + (places - 1) * _place_bytes(shape)


def kept_beside(shape: Mapping[str, Any], places: int) -> int:
    """Tokens of the texts beside which the encoder's activations have room in ``request_bytes``; 0: beside none.

    The longest prompt takes more memory than the encoder, and what it leaves is for the activations of the encoder.
    """
    audio = places * 2 * int(shape.get("decoder_layers", 0)) * _states(shape)
    room = request_bytes(shape, places) - WINDOW_BYTES - ENCODER_STATES * _states(shape) - audio
    token = places * (_place_bytes(shape) - audio // places) // MAX_POSITIONS
    return max(0, room // token) if token else 0


def _place_bytes(shape: Mapping[str, Any]) -> int:
    """Memory of each window beyond the first: the keys and values of its audio and of its text."""
    cache = 4 * MAX_POSITIONS * int(shape.get("width", 0))
    return 2 * int(shape.get("decoder_layers", 0)) * (_states(shape) + CACHES * cache)


def _states(shape: Mapping[str, Any]) -> int:
    return 4 * ENCODER_FRAMES * int(shape.get("width", 0))


def window_bytes(shape: Mapping[str, Any]) -> int:
    """Memory of 30 s of audio at its peak, in bytes, the same in int8; ``shape``: a converted Whisper's ``config``.

    The larger of two figures counts:

    1. The encoder's activations, in arrays [1500, width].
    2. The decoder's activations over the longest prompt. Each layer holds keys and values of the audio. Attention
       [tokens, 1500] is held twice for one layer's heads, before and after the softmax, and twice for all alignment
       heads, one by one and joined.
    """
    states = _states(shape)
    heads = int(shape.get("decoder_heads", 0)) + len(shape.get("alignment_heads", ()))
    attention = 2 * heads * 4 * ENCODER_FRAMES * (MAX_POSITIONS // 2)
    decoder = 2 * int(shape.get("decoder_layers", 0)) * states + attention
    return max(ENCODER_STATES * states, decoder) + WINDOW_BYTES
