"""A grammar beside a sampler chain: the chain chooses freely, and only where the grammar forbids its choice again.

To hold the whole vocabulary against a grammar takes longer than a small model's token (0.2 s where arrays nest), so
first the likeliest tokens are held against it, and all of them only where it allows none of those.
"""

from __future__ import annotations

import ctypes
from typing import Any

from edgeserve.errors import InvalidRequest
from engines.llama_runtime import llama, why

LIKELIEST = 256
"""Tokens among which a forbidden choice is made again; what a chain would choose beyond is next to impossible."""


class Constraint:
    """Of one answer; free it when done. ``grammar`` is GBNF."""

    def __init__(self, grammar: str, vocabulary: Any) -> None:
        import numpy as np

        runtime = llama()
        self._sampler = runtime.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
        if not self._sampler:
            text = f"llama.cpp cannot use the grammar of this schema{why()}; write it more simply"
            raise InvalidRequest(text, param="response_format")
        self._size = int(runtime.llama_vocab_n_tokens(vocabulary))
        self._ids = np.arange(self._size, dtype=np.int32)
        self._data = np.zeros(self._size, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])

    def sample(self, chain: Any, context: Any, output: int) -> int:
        """The next token after the one at place ``output`` of the last call; accepted by the grammar and the chain."""
        import numpy as np

        runtime = llama()
        logits = np.ctypeslib.as_array(runtime.llama_get_logits_ith(context, output), (self._size,))
        token = self._choice(chain, self._candidates(logits, self._size))
        if not self._allowed(self._one(token)):
            candidates = self._candidates(logits, min(LIKELIEST, self._size))
            if not self._allowed(candidates):
                candidates = self._candidates(logits, self._size)
                self._allowed(candidates)
            token = self._choice(chain, candidates)
        runtime.llama_sampler_accept(self._sampler, token)
        runtime.llama_sampler_accept(chain, token)
        return token

    def free(self) -> None:
        llama().llama_sampler_free(self._sampler)

    def _candidates(self, logits: Any, count: int) -> Any:
        """llama.cpp's array of the ``count`` likeliest tokens."""
        import numpy as np

        rows = self._data[:count]
        if count == self._size:
            rows["id"], rows["logit"] = self._ids, logits
        else:
            rows["id"] = np.argpartition(logits, -count)[-count:]
            rows["logit"] = logits[rows["id"]]
        return self._array(rows.ctypes.data_as(ctypes.POINTER(llama().llama_token_data)), count)

    def _one(self, token: int) -> Any:
        return self._array(ctypes.pointer(llama().llama_token_data(token, 1.0, 0.0)), 1)

    @staticmethod
    def _array(rows: Any, count: int) -> Any:
        return llama().llama_token_data_array(rows, count, -1, False)

    @staticmethod
    def _choice(chain: Any, candidates: Any) -> int:
        llama().llama_sampler_apply(chain, ctypes.byref(candidates))
        return int(candidates.data[candidates.selected].id)

    def _allowed(self, candidates: Any) -> bool:
        """Sets the logits of what the grammar forbids to minus infinity; does it allow any?"""
        llama().llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        return any(candidates.data[index].logit > float("-inf") for index in range(candidates.size))
