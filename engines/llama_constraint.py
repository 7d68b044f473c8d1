"""A grammar beside a sampler chain: the chain chooses freely, and only where the grammar forbids its choice again.

To hold the whole vocabulary against a grammar takes longer than a small model's token (0.2 s where arrays nest), so
first the likeliest tokens are held against it, and all of them only where it allows none of those.
"""

from __future__ import annotations

import ctypes
from typing import Any

from edgeserve.errors import EdgeserveError, InvalidRequest
from engines.llama_runtime import llama, why

LIKELIEST = (256, 4096)
"""Tokens among which a forbidden choice is made again; what a chain would choose beyond is next to impossible. The
second is for requests whose biases lift forbidden tokens above all others."""


class Constraint:
    """Of one answer; free it when done. ``grammar`` is GBNF; ``field`` of the request is blamed for it."""

    def __init__(self, grammar: str, vocabulary: Any, field: str = "response_format") -> None:
        import numpy as np

        runtime = llama()
        self._sampler = runtime.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
        if not self._sampler:
            text = f"llama.cpp cannot use the grammar of this schema{why()}; write it more simply"
            raise InvalidRequest(text, param=field)
        self._field = field
        self.tokens = int(runtime.llama_vocab_n_tokens(vocabulary))
        self._ids = np.arange(self.tokens, dtype=np.int32)
        self._data = np.zeros(self.tokens, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])

    def sample(self, chain: Any, context: Any, output: int) -> int:
        """The next token after the one at place ``output`` of the last call; accepted by the grammar and the chain.

        Raises InvalidRequest when the grammar lets no token through: llama.cpp would end the process on the next one.
        """
        import numpy as np

        runtime = llama()
        logits = np.ctypeslib.as_array(runtime.llama_get_logits_ith(context, output), (self.tokens,))
        token = self._choice(chain, self._fill(logits, self.tokens))
        if not self.allows(token):
            token = self._choice(chain, self.allowed(logits))
        self.accept(token)
        runtime.llama_sampler_accept(chain, token)
        return token

    def allows(self, token: int) -> bool:
        one = self._data[:1].copy()
        one["id"], one["logit"] = token, 1.0
        return bool(len(self._held(one)))

    def accept(self, token: int) -> None:
        """One that it allows: any other would end the process."""
        llama().llama_sampler_accept(self._sampler, token)

    def free(self) -> None:
        llama().llama_sampler_free(self._sampler)

    def _fill(self, logits: Any, count: int) -> Any:
        """Rows of the ``count`` likeliest tokens."""
        import numpy as np

        rows = self._data[:count]
        if count == self.tokens:
            rows["id"], rows["logit"] = self._ids, logits
        else:
            rows["id"] = np.argpartition(logits, -count)[-count:]
            rows["logit"] = logits[rows["id"]]
        return rows

    def allowed(self, logits: Any) -> Any:
        """Rows of the likeliest tokens that the grammar allows, and of no others: whatever the chain makes of them, it
        chooses one that can be accepted."""
        for count in (*(one for one in LIKELIEST if one < self.tokens), self.tokens):
            if len(rows := self._held(self._fill(logits, count))):
                return rows
        raise InvalidRequest(
            "no token of this model goes on with the answer as its schema wants it; use other characters in const, "
            "enum and patterns",
            param=self._field,
        )

    def _held(self, rows: Any) -> Any:
        """Those that the grammar allows. It sets the logits of the others to minus infinity."""
        self._applied(self._sampler, rows)
        return rows[rows["logit"] > float("-inf")]

    def _choice(self, chain: Any, rows: Any) -> int:
        candidates = self._applied(chain, rows)
        if not 0 <= candidates.selected < candidates.size:
            raise EdgeserveError("llama.cpp's samplers chose no token: the model's logits are no numbers")
        return int(candidates.data[candidates.selected].id)

    @staticmethod
    def _applied(sampler: Any, rows: Any) -> Any:
        """llama.cpp's form of ``rows``, valid as long as they are, after a sampler went over it."""
        runtime = llama()
        pointer = rows.ctypes.data_as(ctypes.POINTER(runtime.llama_token_data))
        candidates = runtime.llama_token_data_array(pointer, len(rows), -1, False)
        runtime.llama_sampler_apply(sampler, ctypes.byref(candidates))
        return candidates
