"""One llama.cpp context: the key-value cache of one conversation at a time, and what is in it.

Conversations put aside go to a ``PrefixCache`` and come back from there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.errors import ContextOverflow, EngineFailure
from engines.llama_cache import PrefixCache, SavedState, shared
from engines.llama_model import MappedModel
from engines.llama_options import LlamaOptions, context_size
from engines.llama_runtime import llama, why

BATCH = 256
"""Tokens decoded in one call: a cancel waits for one call at most, and the compute buffer grows with it."""
WORTH_SAVING = 32
"""Tokens: fewer are decoded again in less time than a state takes to find, copy and restore."""


class Cancelled(Exception):
    """The request was cancelled between two calls."""


def context_parameters(model: Any, options: LlamaOptions, threads: int | None) -> Any:
    """llama.cpp's parameters of a context for one conversation at a time. ``model``: its handle."""
    runtime = llama()
    parameters = runtime.llama_context_default_params()
    parameters.n_ctx = context_size(options, int(runtime.llama_model_n_ctx_train(model)))
    parameters.n_batch = parameters.n_ubatch = BATCH
    parameters.n_seq_max = 1
    parameters.n_outputs_max = 1
    parameters.n_threads = parameters.n_threads_batch = threads or default_threads()
    parameters.swa_full = False
    parameters.no_perf = True
    if options.kv_type == "q8_0":
        parameters.type_k = parameters.type_v = runtime.GGML_TYPE_Q8_0
    return parameters


class Context:
    """``position`` counts what is in the cache; ``saved`` outlives the context. Not thread-safe."""

    def __init__(self, model: MappedModel, options: LlamaOptions, threads: int | None, saved: PrefixCache) -> None:
        runtime = llama()
        self.model = model
        self._saved = saved
        parameters = context_parameters(model.handle, options, threads)
        self.handle = runtime.llama_init_from_model(model.handle, parameters)
        if not self.handle:
            raise EngineFailure(f"{model.path}: no context of {parameters.n_ctx} tokens can be made{why()}")
        self.size = int(runtime.llama_n_ctx(self.handle))
        self.position = 0
        self._tokens: list[int] = []
        self._memory = runtime.llama_get_memory(self.handle)

    def free(self) -> None:
        llama().llama_free(self.handle)

    def clear(self) -> None:
        llama().llama_memory_clear(self._memory, True)
        self._tokens, self.position = [], 0

    def feed(self, tokens: Sequence[int], cancel: Cancel) -> int:
        """Make the cache hold exactly ``tokens``, decoding only what is not there yet; returns how many were.

        Raises ContextOverflow when they leave no room for an answer, Cancelled between two batches.
        """
        if len(tokens) >= self.size:
            raise ContextOverflow(
                f"the prompt is {len(tokens)} tokens long; the context holds {self.size} and needs one for the answer: "
                "shorten the prompt, or raise context in models.toml",
                param="messages",
            )
        kept = self._keep(tokens)
        for start in range(kept, len(tokens), BATCH):
            if cancel.is_set():
                raise Cancelled
            self._decode(tokens[start : start + BATCH])
        return kept

    def push(self, token: int) -> None:
        """Decode one more token."""
        self._decode([token])

    def moved(self, position: int) -> None:
        """Something else (a picture) was decoded behind our back: the cache now reaches to ``position``."""
        self._tokens, self.position = [], position

    def save(self) -> None:
        """Keep what was decoded, when it is worth it; a later context goes on from there."""
        if len(self._tokens) < max(WORTH_SAVING, self._saved.best(self._tokens)[1] + 1) or not self._saved.limit:
            return
        runtime = llama()
        size = int(runtime.llama_state_seq_get_size(self.handle, 0))
        if size <= self._saved.limit:
            data = (ctypes.c_uint8 * size)()
            if runtime.llama_state_seq_get_data(self.handle, data, size, 0) == size:
                self._saved.put(SavedState(tuple(self._tokens), data))

    def _keep(self, tokens: Sequence[int]) -> int:
        """Reuse the longest prefix known, of what is decoded or of what is saved; at least the last token is decoded
        anew. Returns its length."""
        wanted = tokens[:-1]
        live = shared(self._tokens, wanted)
        state, longest = self._saved.best(wanted)
        if state is not None and longest >= live + WORTH_SAVING:
            self.save()
            if self._restore(state):
                live = longest
        elif len(self._tokens) - live >= WORTH_SAVING:
            self.save()
        return self._cut(live)

    def _restore(self, state: SavedState) -> bool:
        """False, and an empty cache, when llama.cpp refuses: the state is larger than this context, say."""
        self.clear()
        if not llama().llama_state_seq_set_data(self.handle, state.data, state.size, 0):
            self.clear()
            return False
        self._saved.touch(state)
        self._tokens, self.position = list(state.tokens), len(state.tokens)
        return True

    def _cut(self, kept: int) -> int:
        """Take back all after the first ``kept`` tokens; returns how many remain, none when that cannot be done."""
        runtime = llama()
        # With a sliding window the cache may have lost what the prefix needs, while cutting still reports success.
        whole = runtime.llama_memory_seq_pos_min(self._memory, 0) <= max(0, kept - self.model.window)
        if not kept or not whole or not runtime.llama_memory_seq_rm(self._memory, 0, kept, -1):
            self.clear()
            return 0
        self._tokens, self.position = self._tokens[:kept], kept
        return kept

    def _decode(self, tokens: Sequence[int]) -> None:
        runtime = llama()
        array = (runtime.llama_token * len(tokens))(*tokens)
        code = runtime.llama_decode(self.handle, runtime.llama_batch_get_one(array, len(tokens)))
        if code != 0:
            self.clear()
            raise EngineFailure(f"{self.model.path}: llama.cpp ended decoding with code {code}{why()}")
        self._tokens += tokens
        self.position += len(tokens)


def default_threads() -> int:
    """All cores up to eight: small models are bound by memory, not by arithmetic, beyond that."""
    return min(8, os.cpu_count() or 1)
