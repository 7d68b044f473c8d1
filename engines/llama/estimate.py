"""What a language model will take on this machine: laid out exactly by llama.cpp, else by the shape in its header."""

from __future__ import annotations

import dataclasses
import math

from edgeserve.engine import Footprint, ModelSpec
from engines.llama import probe
from engines.llama.context import BATCH
from engines.llama.gguf import Shape
from engines.llama.options import LlamaOptions, context_size
from engines.llama.probe import Layout

VOCABULARY_BYTES = 380
"""Private bytes for each token of an open vocabulary, measured on SmolLM2 (49,152 tokens)."""
KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Bytes of one number in the cache; q8_0 and q4_0 keep a scale for each 32."""
SMALLEST_CONTEXT = 512
"""Tokens below which a context is not shrunk: less holds no conversation."""
STEP = 256
"""llama.cpp rounds contexts up to a multiple of this."""


def footprint(spec: ModelSpec, layout: Layout, options: LlamaOptions, fewer: int = 0) -> Footprint:
    """Once open and hot, with a context of ``fewer`` tokens less than was laid out."""
    size = spec.files["model"].stat().st_size
    own, device = layout.context - fewer * layout.token, layout.device - fewer * layout.device_token
    if options.repack == "on":  # weights reordered into memory of ours, with a vocabulary of their own
        return Footprint(private=size + 2 * layout.model + own, device=device)
    return Footprint(mapped=size, private=layout.model + own, device=device)


def lay_out(spec: ModelSpec, shape: Shape, options: LlamaOptions) -> Layout:
    """By llama.cpp, else by the shape. Blocks for a child process (0.3 s), the first time."""
    return probe.measure(spec.files["model"], spec.device, options) or by_shape(shape, options)


def by_shape(shape: Shape, options: LlamaOptions) -> Layout:
    """Without llama.cpp: vocabulary, key-value cache (zero-filled, so resident at once) and compute buffer."""
    size = context_size(options, shape.trained_context)
    compute = 4 * (BATCH * (6 * shape.width + 2 * shape.feed_forward) + options.parallel * shape.vocabulary)
    token = int(shape.layers * shape.key_value_width * KV_BYTES[options.kv_type]) + 2 * BATCH
    return Layout(shape.vocabulary * VOCABULARY_BYTES, compute + size * token, token=token)


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A context of ``size`` tokens, of ``token`` bytes each, and how far it can be shrunk."""

    size: int
    token: int

    def savable(self, least: int = SMALLEST_CONTEXT) -> int:
        """Bytes that a context of ``least`` tokens would save."""
        return max(0, self.size - least) * self.token

    def without(self, amount: int, least: int = SMALLEST_CONTEXT) -> int:
        """Tokens of one that takes at least ``amount`` bytes less, down to ``least``; a multiple of 256."""
        if not self.token:
            return self.size
        left = math.floor(self.size - amount / self.token) // STEP * STEP
        return min(self.size, max(least, left))
