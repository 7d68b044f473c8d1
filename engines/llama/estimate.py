"""Estimate of the memory of a language model: exact from llama.cpp's layout, else from the shape in its header."""

from __future__ import annotations

import math

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engines.llama import adapters, probe
from edgeserve.engines.llama.gguf import Shape
from edgeserve.engines.llama.options import BESIDE, CONTEXT_STEP, LlamaOptions, batch_size, context_size, longest_draft
from edgeserve.engines.llama.probe import Layout

VOCABULARY_BYTES = 380
"""Private bytes of each token of an open vocabulary, measured on SmolLM2 (49,152 tokens)."""
KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Bytes of one number in the KV cache; q8_0 and q4_0 keep a scale for each 32 numbers."""
SMALLEST_CONTEXT = 512
"""Tokens. The governor shrinks no context below this: a smaller one holds no conversation."""


def footprint(spec: ModelSpec, layout: Layout, options: LlamaOptions, fewer: int = 0) -> Footprint:
    """Footprint of the hot engine and its adapters, with a context of ``fewer`` tokens less than the layout."""
    size = spec.files["model"].stat().st_size
    own, device = layout.context - fewer * layout.token, layout.device - fewer * layout.device_token
    if device:  # llama.cpp puts the adapters where the weights are
        device += adapters.size_of(spec)
    else:
        own += adapters.size_of(spec)
    if options.reordered:  # a reordered private copy of the weights, with a vocabulary of its own
        return Footprint(private=size + 2 * layout.model + own, device=device)
    return Footprint(mapped=size, private=layout.model + own, device=device)


def copy_bytes(spec: ModelSpec) -> int:
    """Bytes of a private copy of the weights. 0 where their file has gone: every decision on others asks for this."""
    try:
        return spec.files["model"].stat().st_size
    except OSError:  # the request that opens the model hears of it
        return 0


def lay_out(spec: ModelSpec, shape: Shape, options: LlamaOptions) -> Layout:
    """The layout by llama.cpp, else by the shape. The first call blocks for a child process (0.3 s)."""
    return probe.measure(spec.files["model"], spec.device, options) or by_shape(shape, options)


def by_shape(shape: Shape, options: LlamaOptions) -> Layout:
    """The layout without llama.cpp: vocabulary, KV cache (zero-filled, so resident at once), compute buffer."""
    size = context_size(options, shape.trained_context)
    outputs = outputs_of(options, shape.vocabulary)
    batch = batch_size(options, size)
    compute = 4 * (batch * (6 * shape.width + 2 * shape.feed_forward) + outputs * shape.vocabulary)
    token = int(shape.layers * shape.key_value_width * KV_BYTES[options.kv_type]) + 2 * batch
    return Layout(shape.vocabulary * VOCABULARY_BYTES, compute + size * token, token=token)


def outputs_of(options: LlamaOptions, vocabulary: int) -> int:
    """Rows of logits that a context has room for: computed, and copied for the answers."""
    beside = 0 if options.pooled else BESIDE
    return options.parallel + max(2 * longest_draft(options, vocabulary), beside)


@dataclass(frozen=True, slots=True)
class Span:
    """A context of ``size`` tokens, of ``token`` bytes each."""

    size: int
    token: int

    def savable(self, least: int = SMALLEST_CONTEXT) -> int:
        """Bytes that shrinking to ``least`` tokens saves."""
        return max(0, self.size - least) * self.token

    def without(self, amount: int, least: int = SMALLEST_CONTEXT) -> int:
        """Tokens of a context that takes at least ``amount`` bytes less: a multiple of 256, at least ``least``."""
        if not self.token:
            return self.size
        left = math.floor(self.size - amount / self.token) // CONTEXT_STEP * CONTEXT_STEP
        return min(self.size, max(least, left))
