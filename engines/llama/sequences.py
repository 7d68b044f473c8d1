"""The sequences of a context: one for each slot, and some beside them."""

from __future__ import annotations

from typing import Any

from edgeserve.engines.llama.options import BESIDE, LlamaOptions, longest_draft
from edgeserve.engines.llama.runtime import llama

MOST_SEQUENCES = 256
"""LLAMA_MAX_SEQ."""


def beside(model: Any, options: LlamaOptions) -> int:
    """Sequences beyond those of the slots. ``model``: llama.cpp's pointer.

    All sequences share the cells of the KV cache, so one more costs nothing. Recurrent layers keep a state for each,
    and sliding windows the cells of a window: such a model has one.
    """
    if options.pooled:
        return 0
    runtime = llama()
    recurrent = runtime.llama_model_is_recurrent(model) or runtime.llama_model_is_hybrid(model)
    sliding = options.window == "sliding" and runtime.llama_model_n_swa(model) > 0
    return min(1 if recurrent or sliding else BESIDE, MOST_SEQUENCES - options.parallel)


def outputs(options: LlamaOptions, sequences: int, vocabulary: int) -> int:
    """Tokens of one call that may have logits, each of the whole vocabulary.

    Answers beside the slots take the room of drafts.
    """
    return max(sequences, options.parallel + longest_draft(options, vocabulary))
