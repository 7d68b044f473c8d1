"""Whisper: a CTranslate2 checkpoint (any faster-whisper model) into three ONNX graphs with mapped weights.

    encoder.onnx   mel [1, mels, 3000] → states [1, 1500, d]
    cross.onnx     states → for each layer cross_k_i [1, heads, d/heads, 1500] and cross_v_i [1, heads, 1500, d/heads]
    decoder.onnx   embedded [b, n, d], positions [b, n], mask [b, 1, n, past+n], rows [r], past and cross keys and
                   values of b windows → logits [b·r, vocabulary] of the rows asked for, present keys and values, and
                   alignment [b, alignment heads, n, 1500]: attention to the audio, for word timestamps

Each graph is written twice, in float32 and as *.int8.onnx. The int8 graph has int8 matrices with a scale a column; the
runtime rounds their activations to 8 bits. Convolutions, norms and positions stay float32.

One decoder serves the prompt and each step: the past may be empty. A step serves several windows at once: it reads the
weights once for all of them. Matrices are transposed to the order of their
products. The token embedding and the final projection share one matrix [vocabulary, d], as in the checkpoint.

The engine looks tokens up outside the graph, at ``embeddings_offset`` (config.json) of the float32 decoder's data. So a
lookup touches some rows of the matrix, and needs no second copy of it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.models.convert.checkpoint import AUDIO_STATES, CONFIG, TOKENIZER, Progress, layers, new_folder, read
from edgeserve.models.convert.conversions import CONVERSIONS
from edgeserve.models.convert.ctranslate2 import Checkpoint
from edgeserve.models.convert.graph import GraphWriter, load_onnx

PARTS = ("encoder", "cross", "decoder")
INT8 = "_int8"
"""Suffix of the role of a quantised graph: ``decoder_int8``, with the weights ``decoder_int8_data``."""
EPSILON = 1e-5


def convert(checkpoint: Path, out: Path, progress: Progress | None = None) -> Mapping[str, Path]:
    """Write the graphs into a new folder ``out``, which appears when it is complete; returns the files by role.

    ``progress`` gets each stage and the share done. Raises StoreError for a missing or unreadable part, and DiskFull.
    """
    tell = progress or (lambda stage, share: None)
    source, settings = read(checkpoint)
    load_onnx()
    with new_folder(out) as partial:
        _write(_Whisper(source, settings), settings, partial, tell)
        shutil.copyfile(checkpoint / TOKENIZER, partial / TOKENIZER)
    tell("done", 1.0)
    return files_in(out)


def _write(whisper: _Whisper, settings: dict[str, Any], out: Path, tell: Progress) -> None:
    for share, part in enumerate(PARTS):
        tell(part, share / len(PARTS))
        for int8 in (False, True):
            with GraphWriter(_graph_in(out, part, int8)) as graph:
                whisper.write(part, graph, int8)
                graph.save(f"whisper-{part}")
    settings |= {
        "mel_bins": whisper.mels,
        "vocabulary_size": whisper.vocabulary,
        "width": whisper.width,
        "decoder_layers": whisper.decoder_layers,
        "decoder_heads": whisper.decoder_heads,
        "embeddings_offset": whisper.embeddings_offset,
        "format": CONVERSIONS["whisper"].format,
    }
    (out / CONFIG).write_text(json.dumps(settings, indent=1), encoding="utf-8")


def files_in(folder: Path) -> Mapping[str, Path]:
    """The files of a converted model by role."""
    graphs = {part + INT8 * int8: _graph_in(folder, part, int8) for int8 in (False, True) for part in PARTS}
    data = {f"{role}_data": path.with_name(f"{path.name}.data") for role, path in graphs.items()}
    return {**graphs, **data, "config": folder / CONFIG, "tokenizer": folder / TOKENIZER}


def _graph_in(folder: Path, part: str, int8: bool) -> Path:
    return folder / (f"{part}.int8.onnx" if int8 else f"{part}.onnx")


class _Whisper:
    def __init__(self, source: Checkpoint, settings: Mapping[str, Any]) -> None:
        self._source = source
        self._heads_to_align = [tuple(pair) for pair in settings.get("alignment_heads", [])]
        self.mels = int(source.read("encoder/conv1/weight").shape[1])
        self.vocabulary, self.width = source.read("decoder/embeddings/weight").shape
        self.encoder_heads = source.integer("encoder/num_heads")
        self.decoder_heads = source.integer("decoder/num_heads")
        self.encoder_layers = layers(source, "encoder")
        self.decoder_layers = layers(source, "decoder")
        self.head_width = self.width // self.decoder_heads
        self.embeddings_offset = 0
        self._int8 = False

    def write(self, part: str, graph: GraphWriter, int8: bool) -> None:
        self._int8 = int8
        {"encoder": self.encoder, "cross": self.cross, "decoder": self.decoder}[part](graph)

    # Building blocks

    def _norm(self, graph: GraphWriter, name: str, value: str) -> str:
        gamma, beta = (
            graph.constant(f"{name}/{end}", self._source.weight(f"{name}/{end}")) for end in ("gamma", "beta")
        )
        return str(graph.node("LayerNormalization", value, gamma, beta, epsilon=EPSILON, axis=-1))

    def _linear(self, graph: GraphWriter, name: str, value: str, queries: int = 0) -> str:
        """A linear layer. ``queries``: number of leading outputs that are scaled for attention."""
        weight = self._source.weight(f"{name}/weight").T
        bias = self._source.weight(f"{name}/bias") if f"{name}/bias" in self._source else None
        if queries:
            scale = self.head_width**-0.5
            weight = _scaled(weight, queries, scale)
            bias = None if bias is None else _scaled(bias, queries, scale)
        biases = [] if bias is None else [graph.constant(f"{name}/bias", bias)]
        if self._int8:
            return graph.product_in_int8(name, value, weight, *biases)
        product = graph.node("MatMul", value, graph.constant(f"{name}/weight", weight))
        return str(graph.node("Add", product, *biases) if biases else product)

    def _feed_forward(self, graph: GraphWriter, layer: str, value: str) -> str:
        inner = self._norm(graph, f"{layer}/ffn/layer_norm", value)
        inner = graph.node("Gelu", self._linear(graph, f"{layer}/ffn/linear_0", inner))
        return str(graph.node("Add", value, self._linear(graph, f"{layer}/ffn/linear_1", inner)))

    def _split_heads(self, graph: GraphWriter, value: str, heads: int, keys: bool = False) -> str:
        """Split the heads: [b, n, d] → [b, heads, n, d/heads], or [b, heads, d/heads, n] for keys."""
        shaped = graph.node("Reshape", value, graph.integers(0, -1, heads, self.width // heads))
        return str(graph.node("Transpose", shaped, perm=[0, 2, 3, 1] if keys else [0, 2, 1, 3]))

    def _attend(
        self, graph: GraphWriter, query: str, keys: str, values: str, heads: int, mask: str | None = None
    ) -> tuple[str, str]:
        """Attention of split heads with scaled queries; returns joined states [b, n, d] and weights [b, heads, n, m].

        The queries are scaled before: a factor in the product would keep the runtime from its fast path for one row.
        """
        scores = graph.node("MatMul", query, keys)
        if mask:
            scores = graph.node("Add", scores, mask)
        weights = graph.node("Softmax", scores, axis=-1)
        joined = graph.node("Transpose", graph.node("MatMul", weights, values), perm=[0, 2, 1, 3])
        return str(graph.node("Reshape", joined, graph.integers(0, -1, self.width))), str(weights)

    # The three graphs

    def encoder(self, graph: GraphWriter) -> None:
        value = graph.input("mel", [1, self.mels, 2 * AUDIO_STATES])
        for name, stride in (("conv1", 1), ("conv2", 2)):
            parts = [
                graph.constant(f"{name}/{end}", self._source.weight(f"encoder/{name}/{end}"))
                for end in ("weight", "bias")
            ]
            value = graph.node("Gelu", graph.node("Conv", value, *parts, pads=[1, 1], strides=[stride]))
        value = graph.node("Transpose", value, perm=[0, 2, 1])
        places = self._source.weight("encoder/position_encodings/encodings")
        value = graph.node("Add", value, graph.constant("positions", places))
        for index in range(self.encoder_layers):
            layer = f"encoder/layer_{index}"
            inner = self._norm(graph, f"{layer}/self_attention/layer_norm", value)
            fused = self._linear(graph, f"{layer}/self_attention/linear_0", inner)
            query, key, val = graph.node("Split", fused, outputs=3, axis=-1, num_outputs=3)
            # This fused node never holds all scores (1500² a head) at once.
            states = graph.node(
                "MultiHeadAttention", query, key, val, domain="com.microsoft", num_heads=self.encoder_heads
            )
            value = graph.node("Add", value, self._linear(graph, f"{layer}/self_attention/linear_1", states))
            value = self._feed_forward(graph, layer, value)
        graph.output("states", [1, AUDIO_STATES, self.width], self._norm(graph, "encoder/layer_norm", value))

    def cross(self, graph: GraphWriter) -> None:
        states = graph.input("states", [1, AUDIO_STATES, self.width])
        heads = self.decoder_heads
        for index in range(self.decoder_layers):
            fused = self._linear(graph, f"decoder/layer_{index}/attention/linear_1", states)
            key, val = graph.node("Split", fused, outputs=2, axis=-1, num_outputs=2)
            keys = self._split_heads(graph, key, heads, keys=True)
            graph.output(f"cross_k_{index}", [1, heads, self.head_width, AUDIO_STATES], keys)
            values = self._split_heads(graph, val, heads)
            graph.output(f"cross_v_{index}", [1, heads, AUDIO_STATES, self.head_width], values)

    def decoder(self, graph: GraphWriter) -> None:
        value = graph.input("embedded", ["b", "n", self.width])
        positions = graph.input("positions", ["b", "n"], "INT64")
        mask = graph.input("mask", ["b", 1, "n", "total"])
        rows = graph.input("rows", ["r"], "INT64")
        places = graph.constant("positions_table", self._source.weight("decoder/position_encodings/encodings"))
        value = graph.node("Add", value, graph.node("Gather", places, positions))
        attention = []
        for index in range(self.decoder_layers):
            value, weights = self._decoder_layer(graph, index, value, mask)
            attention.append(weights)
        value = graph.node("Gather", self._norm(graph, "decoder/layer_norm", value), rows, axis=1)
        flat = graph.node("Reshape", value, graph.integers(-1, self.width))
        graph.output("logits", ["b_r", self.vocabulary], self._projection(graph, flat))
        self._alignment(graph, attention)

    def _projection(self, graph: GraphWriter, value: str) -> str:
        weight = self._source.weight("decoder/embeddings/weight")
        if self._int8:
            return graph.product_in_int8("projection", value, weight.T)
        embeddings = graph.constant("embeddings", weight)
        self.embeddings_offset = graph.place(embeddings)
        return str(graph.node("Gemm", value, embeddings, transB=1))

    def _decoder_layer(self, graph: GraphWriter, index: int, value: str, mask: str) -> tuple[str, str]:
        layer, heads, width = f"decoder/layer_{index}", self.decoder_heads, self.head_width
        inner = self._norm(graph, f"{layer}/self_attention/layer_norm", value)
        fused = self._linear(graph, f"{layer}/self_attention/linear_0", inner, queries=self.width)
        query, key, val = graph.node("Split", fused, outputs=3, axis=-1, num_outputs=3)
        past_k = graph.input(f"past_k_{index}", ["b", heads, width, "past"])
        past_v = graph.input(f"past_v_{index}", ["b", heads, "past", width])
        keys = graph.node("Concat", past_k, self._split_heads(graph, key, heads, keys=True), axis=3)
        values = graph.node("Concat", past_v, self._split_heads(graph, val, heads), axis=2)
        graph.output(f"present_k_{index}", ["b", heads, width, "total"], keys)
        graph.output(f"present_v_{index}", ["b", heads, "total", width], values)
        states, _ = self._attend(graph, self._split_heads(graph, query, heads), keys, values, heads, mask)
        value = graph.node("Add", value, self._linear(graph, f"{layer}/self_attention/linear_1", states))

        inner = self._norm(graph, f"{layer}/attention/layer_norm", value)
        query = self._split_heads(graph, self._linear(graph, f"{layer}/attention/linear_0", inner, self.width), heads)
        cross_k = graph.input(f"cross_k_{index}", ["b", heads, width, AUDIO_STATES])
        cross_v = graph.input(f"cross_v_{index}", ["b", heads, AUDIO_STATES, width])
        states, weights = self._attend(graph, query, cross_k, cross_v, heads)
        value = graph.node("Add", value, self._linear(graph, f"{layer}/attention/linear_2", states))
        return self._feed_forward(graph, layer, value), weights

    def _alignment(self, graph: GraphWriter, attention: list[str]) -> None:
        pairs = self._heads_to_align or [(self.decoder_layers - 1, head) for head in range(self.decoder_heads)]
        chosen = [graph.node("Gather", attention[layer], graph.integers(head), axis=1) for layer, head in pairs]
        joined = graph.node("Concat", *chosen, axis=1) if len(chosen) > 1 else chosen[0]
        graph.output("alignment", ["b", len(pairs), "n", AUDIO_STATES], joined)


def _scaled(array: Any, columns: int, factor: float) -> Any:
    """A copy with its first columns multiplied."""
    array = array.copy()
    array[..., :columns] *= factor
    return array
