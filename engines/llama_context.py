"""One llama.cpp context: the key-value cache of one conversation at a time, and what is in it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from edgeserve.engine import Cancel
from edgeserve.errors import ContextOverflow, EngineFailure
from engines.gguf_header import Shape
from engines.llama_model import MappedModel
from engines.llama_options import LlamaOptions
from engines.llama_runtime import llama, why

BATCH = 256
"""Tokens decoded in one call: a cancel waits for one call at most, and the compute buffer grows with it."""
KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32}
"""Bytes of one number in the cache; q8_0 keeps a scale for each 32."""


class Cancelled(Exception):
    """The request was cancelled between two calls."""


def context_size(options: LlamaOptions, trained: int) -> int:
    return min(options.context, trained) if trained else options.context


def estimate_bytes(shape: Shape, options: LlamaOptions) -> int:
    """Key-value cache (zero-filled, so resident at once) and compute buffer of one context."""
    size = context_size(options, shape.trained_context)
    cache = int(shape.layers * size * shape.key_value_width * KV_BYTES[options.kv_type])
    compute = 4 * (BATCH * (6 * shape.width + 2 * shape.feed_forward) + shape.vocabulary) + size * BATCH * 4
    return cache + compute


class Context:
    """``position`` counts what is in the cache. Not thread-safe."""

    def __init__(self, model: MappedModel, options: LlamaOptions, threads: int | None) -> None:
        runtime = llama()
        self.model = model
        parameters = runtime.llama_context_default_params()
        parameters.n_ctx = context_size(options, int(runtime.llama_model_n_ctx_train(model.handle)))
        parameters.n_batch = parameters.n_ubatch = BATCH
        parameters.n_seq_max = 1
        parameters.n_outputs_max = 1
        parameters.n_threads = parameters.n_threads_batch = threads or default_threads()
        parameters.swa_full = False
        parameters.no_perf = True
        if options.kv_type == "q8_0":
            parameters.type_k = parameters.type_v = runtime.GGML_TYPE_Q8_0
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

    def _keep(self, tokens: Sequence[int]) -> int:
        """Cut the cache back to the longest prefix it shares with ``tokens``; at least the last is decoded anew."""
        runtime = llama()
        kept = 0
        for ours, theirs in zip(self._tokens, tokens[:-1], strict=False):
            if ours != theirs:
                break
            kept += 1
        # With a sliding window the cache may have lost what the prefix needs, while cutting still reports success.
        whole = runtime.llama_memory_seq_pos_min(self._memory, 0) <= 0
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
