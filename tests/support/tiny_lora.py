"""LoRA adapters of random weights for the models of ``tiny_gguf``, and what they add to the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
from support.tiny_gguf import FEED_FORWARD, HEAD_WIDTH, HEADS, LAYERS, WIDTH, Tensors, finish

RANK, ALPHA = 4, 8.0
TARGETS = {"attn_q": (HEADS * HEAD_WIDTH, WIDTH), "ffn_down": (WIDTH, FEED_FORWARD)}
"""Rows and columns of the weights that an adapter changes."""


def pairs(seed: int, rank: int = RANK) -> Tensors:
    """Tensors of an adapter: A of (rank, columns) and B of (rows, rank) for each weight."""
    dice, found = numpy.random.default_rng(seed), Tensors()
    for layer in range(LAYERS):
        for name, (rows, columns) in TARGETS.items():
            found[f"blk.{layer}.{name}.weight.lora_a"] = dice.normal(0, columns**-0.5, (rank, columns))
            found[f"blk.{layer}.{name}.weight.lora_b"] = dice.normal(0, 0.5, (rows, rank))
    return {name: array.astype(numpy.float32) for name, array in found.items()}


def added(seed: int, scale: float = 1.0, rank: int = RANK) -> Tensors:
    """The numbers that the adapter of this seed adds to the weights, by their names."""
    found = pairs(seed, rank)
    weights = {name.removesuffix(".lora_a") for name in found if name.endswith(".lora_a")}
    factor = scale * ALPHA / rank
    return {name: factor * found[f"{name}.lora_b"] @ found[f"{name}.lora_a"] for name in weights}


def write_adapter(path: Path, seed: int, tensors: Tensors | None = None, **metadata: Any) -> Path:
    """``tensors``: other ones than those of the seed. ``metadata``: general_type, architecture, adapter_type, alpha, or
    alora."""
    import gguf

    writer = gguf.GGUFWriter(str(path), metadata.get("architecture", "llama"))
    writer.add_string("general.type", metadata.get("general_type", "adapter"))
    writer.add_string("adapter.type", metadata.get("adapter_type", "lora"))
    alpha = metadata.get("alpha", ALPHA)
    if isinstance(alpha, int):
        writer.add_uint32("adapter.lora.alpha", alpha)
    else:
        writer.add_float32("adapter.lora.alpha", alpha)
    if "alora" in metadata:
        writer.add_array("adapter.alora.invocation_tokens", metadata["alora"])
    for name, array in (pairs(seed) if tensors is None else tensors).items():
        writer.add_tensor(name, numpy.ascontiguousarray(array))
    finish(writer)
    return path
