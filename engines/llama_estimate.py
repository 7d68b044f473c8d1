"""What a language model will take on this machine: laid out exactly by llama.cpp, else by the shape in its header."""

from __future__ import annotations

import dataclasses

from edgeserve.engine import Footprint, ModelSpec
from engines import llama_probe
from engines.gguf_header import Shape
from engines.llama_context import BATCH
from engines.llama_options import LlamaOptions, context_size

VOCABULARY_BYTES = 380
"""Private bytes for each token of an open vocabulary, measured on SmolLM2 (49,152 tokens)."""
KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32}
"""Bytes of one number in the cache; q8_0 keeps a scale for each 32."""
SMALLEST_CONTEXT = 512
"""Tokens below which a context is not shrunk: less holds no conversation."""


def estimate(spec: ModelSpec, shape: Shape, options: LlamaOptions) -> Footprint:
    """Once open and hot. Blocks for a child process (0.3 s)."""
    path = spec.files["model"]
    size = path.stat().st_size
    layout = llama_probe.measure(path, spec.device, options)
    if layout is None:
        layout = llama_probe.Layout(shape.vocabulary * VOCABULARY_BYTES, context_bytes(shape, options))
    if options.repack == "on":  # weights reordered into memory of ours, with a vocabulary of their own
        return Footprint(private=size + 2 * layout.model + layout.context, device=layout.device)
    return Footprint(mapped=size, private=layout.model + layout.context, device=layout.device)


def context_bytes(shape: Shape, options: LlamaOptions) -> int:
    """Key-value cache (zero-filled, so resident at once) and compute buffer of one context."""
    size = context_size(options, shape.trained_context)
    compute = (
        4 * (BATCH * (6 * shape.width + 2 * shape.feed_forward) + options.parallel * shape.vocabulary)
        + size * BATCH * 4
    )
    return size * token_bytes(shape, options) + compute


def token_bytes(shape: Shape, options: LlamaOptions) -> int:
    """One token in the key-value cache."""
    return int(shape.layers * shape.key_value_width * KV_BYTES[options.kv_type])


def shrinkable(shape: Shape, options: LlamaOptions) -> int:
    """Bytes that the smallest context would save."""
    tokens = context_size(options, shape.trained_context) - SMALLEST_CONTEXT
    return max(0, tokens) * token_bytes(shape, options)


def shrunk(shape: Shape, options: LlamaOptions, amount: int) -> LlamaOptions:
    """The same with a context that takes at least ``amount`` bytes less, down to the smallest; a multiple of 256."""
    size = context_size(options, shape.trained_context)
    left = size - amount / token_bytes(shape, options)
    return dataclasses.replace(options, context=min(size, max(SMALLEST_CONTEXT, int(left) // 256 * 256)))
