"""Whisper: a CTranslate2 checkpoint (any faster-whisper model) into files for mlx-whisper, with NumPy alone.

    weights.safetensors   float16, names and shapes of mlx_whisper/whisper.py; linear weights [out, in] as in the
                          checkpoint, convolutions [out, kernel, in], and ``alignment_heads`` [n, 2] (layer, head)
    config.json           its ModelDimensions

The vocabulary is mlx-whisper's own. Format of the weights: 8 bytes with the length of the header, the header (JSON,
padded with spaces), the tensors one after the other (huggingface/safetensors, README "Format").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.models.convert.checkpoint import AUDIO_STATES, CONFIG, Progress, layers, new_folder, read
from edgeserve.models.convert.ctranslate2 import Checkpoint

WEIGHTS = "weights.safetensors"
HEADER_BYTES = 160
"""Bytes of one tensor in the header; the longest takes 140."""
ATTENTION = {
    "self_attention": {
        "query": ("linear_0", 0, 3),
        "key": ("linear_0", 1, 3),
        "value": ("linear_0", 2, 3),
        "out": ("linear_1", 0, 1),
    },
    "attention": {
        "query": ("linear_0", 0, 1),
        "key": ("linear_1", 0, 2),
        "value": ("linear_1", 1, 2),
        "out": ("linear_2", 0, 1),
    },
}
"""Matrices of self- and cross-attention in the checkpoint: fused matrix, part, number of parts."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. ``name`` in mlx-whisper; ``variable`` in the checkpoint, one of its ``parts`` equal parts."""

    name: str
    variable: str
    part: int = 0
    parts: int = 1


def convert(checkpoint: Path, out: Path, progress: Progress | None = None) -> Mapping[str, Path]:
    """Write weights and dimensions into the new folder ``out``, which appears complete; returns the files by role.

    ``progress`` gets each stage and the share done. Raises StoreError for a missing or unreadable part, and DiskFull.
    """
    tell = progress or (lambda stage, share: None)
    source, settings = read(checkpoint)
    dimensions = _dimensions(source)
    with new_folder(out) as partial:
        heads = settings.get("alignment_heads") or _upper_heads(dimensions)
        _write(partial / WEIGHTS, source, list(_tensors(dimensions)), heads, tell)
        text = json.dumps({"model_type": "whisper", **dimensions}, indent=1)
        (partial / CONFIG).write_text(text, encoding="utf-8")
    tell("done", 1.0)
    return files_in(out)


def files_in(folder: Path) -> Mapping[str, Path]:
    """The files of a converted model by role."""
    return {"weights": folder / WEIGHTS, "config": folder / CONFIG}


def _dimensions(source: Checkpoint) -> dict[str, int]:
    vocabulary, width = source.read("decoder/embeddings/weight").shape
    return {
        "n_mels": int(source.read("encoder/conv1/weight").shape[1]),
        "n_audio_ctx": AUDIO_STATES,
        "n_audio_state": width,
        "n_audio_head": source.integer("encoder/num_heads"),
        "n_audio_layer": layers(source, "encoder"),
        "n_vocab": vocabulary,
        "n_text_ctx": int(source.read("decoder/position_encodings/encodings").shape[0]),
        "n_text_state": width,
        "n_text_head": source.integer("decoder/num_heads"),
        "n_text_layer": layers(source, "decoder"),
    }


def _upper_heads(dimensions: Mapping[str, int]) -> list[list[int]]:
    """All heads of the upper half of the decoder: openai/whisper's choice for a checkpoint that names none."""
    count = dimensions["n_text_layer"]
    return [[layer, head] for layer in range(count // 2, count) for head in range(dimensions["n_text_head"])]


def _tensors(dimensions: Mapping[str, int]) -> Iterator[Tensor]:
    for name in ("conv1", "conv2"):
        for end in ("weight", "bias"):
            yield Tensor(f"encoder.{name}.{end}", f"encoder/{name}/{end}")
    yield Tensor("decoder.token_embedding.weight", "decoder/embeddings/weight")
    yield Tensor("decoder.positional_embedding", "decoder/position_encodings/encodings")
    yield from _norm("encoder.ln_post", "encoder/layer_norm")
    for index in range(dimensions["n_audio_layer"]):
        yield from _block(f"encoder.blocks.{index}", f"encoder/layer_{index}", {"attn": "self_attention"})
    yield from _norm("decoder.ln", "decoder/layer_norm")
    for index in range(dimensions["n_text_layer"]):
        attentions = {"attn": "self_attention", "cross_attn": "attention"}
        yield from _block(f"decoder.blocks.{index}", f"decoder/layer_{index}", attentions)


def _block(name: str, layer: str, attentions: Mapping[str, str]) -> Iterator[Tensor]:
    for ours, theirs in attentions.items():
        yield from _norm(f"{name}.{ours}_ln", f"{layer}/{theirs}/layer_norm")
        for role, (matrix, part, parts) in ATTENTION[theirs].items():
            yield Tensor(f"{name}.{ours}.{role}.weight", f"{layer}/{theirs}/{matrix}/weight", part, parts)
            if role != "key":  # Whisper's keys have no bias; fused matrices hold zeros for it
                yield Tensor(f"{name}.{ours}.{role}.bias", f"{layer}/{theirs}/{matrix}/bias", part, parts)
    yield from _norm(f"{name}.mlp_ln", f"{layer}/ffn/layer_norm")
    for index in (0, 1):
        for end in ("weight", "bias"):
            yield Tensor(f"{name}.mlp{index + 1}.{end}", f"{layer}/ffn/linear_{index}/{end}")


def _norm(name: str, theirs: str) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", f"{theirs}/gamma")
    yield Tensor(f"{name}.bias", f"{theirs}/beta")


def _read(source: Checkpoint, tensor: Tensor) -> Any:
    """The tensor in float16, in MLX's order."""
    import numpy

    array = source.weight(tensor.variable)
    rows = array.shape[0] // tensor.parts
    array = array[tensor.part * rows : (tensor.part + 1) * rows]
    if array.ndim == 3:  # a convolution: [out, in, kernel]
        array = array.transpose(0, 2, 1)
    return numpy.ascontiguousarray(array, "<f2")


def _write(path: Path, source: Checkpoint, tensors: list[Tensor], heads: list[list[int]], tell: Progress) -> None:
    """Write one tensor after the other, so that memory holds one at a time; the header is filled in at the end."""
    import numpy

    room = HEADER_BYTES * (len(tensors) + 1)
    header: dict[str, Any] = {}
    with path.open("wb") as out:
        out.seek(8 + room)

        def add(name: str, array: Any, dtype: str) -> None:
            start = out.tell() - 8 - room
            out.write(memoryview(array).cast("B"))
            header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [start, start + array.nbytes]}

        for index, tensor in enumerate(tensors):
            tell("weights", index / len(tensors))
            add(tensor.name, _read(source, tensor), "F16")
        add("alignment_heads", numpy.array(heads, "<i4"), "I32")
        text = json.dumps(header, separators=(",", ":")).encode().ljust(room)
        out.seek(0)
        out.write(len(text).to_bytes(8, "little") + text)
