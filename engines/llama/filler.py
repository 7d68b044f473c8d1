"""A token that fills a call up to whole rows: llama.cpp takes some calls faster with one token more.

With reordered weights llama.cpp multiplies four tokens at a time; of the others in a call it takes one after the other
(ggml-cpu/repack.cpp). So three others take longer than four. The filler has a sequence of its own, and nobody reads it.
"""

from __future__ import annotations

from typing import Any

from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.runtime import llama
from edgeserve.engines.llama.sequences import MOST_SEQUENCES, beside

ROWS = 4


def has_one(model: Any, options: LlamaOptions) -> bool:
    """Whether a context has a sequence beyond those of the answers. Recurrent layers would keep a state for it.

    ``model``: llama.cpp's pointer.
    """
    if not options.reordered or options.pooled or options.parallel + beside(model, options) >= MOST_SEQUENCES:
        return False
    runtime = llama()
    return not (runtime.llama_model_is_recurrent(model) or runtime.llama_model_is_hybrid(model))


def wanted(count: int) -> bool:
    """Whether a call of so many tokens is faster with one more."""
    return count % ROWS == ROWS - 1


def fill(fields: tuple[Any, ...], count: int, sequence: int) -> None:
    """Add a token behind the first ``count`` ones of a batch. ``fields``: those of llama_batch, as ``Context`` has."""
    tokens, positions, counts, sequences, outputs = fields
    tokens[count], positions[count], outputs[count] = tokens[0], 0, False
    counts[count], sequences[count][0] = 1, sequence
