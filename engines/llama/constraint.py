"""A grammar beside a sampler chain: the chain chooses freely, and only where the grammar forbids its choice again.

To hold the whole vocabulary against a grammar takes longer than a small model's token (0.2 s where arrays nest), so
first the likeliest tokens are held against it, and all of them only where it allows none of those.
"""

from __future__ import annotations

import ctypes
from typing import Any

from edgeserve.errors import EdgeserveError, InvalidRequest
from engines.llama.runtime import llama, why

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
        self._spelling = Spelling(vocabulary)
        self._field = field
        self.tokens = int(runtime.llama_vocab_n_tokens(vocabulary))
        self._ids = np.arange(self.tokens, dtype=np.int32)
        self._data = np.zeros(self.tokens, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])

    def sample(self, chain: Any, logits: Any) -> int:
        """The next token by these logits; accepted by the grammar and the chain.

        Raises InvalidRequest when the grammar lets no token through: llama.cpp would end the process on the next one.
        """
        token = self._choice(chain, self._fill(logits, self.tokens))
        if not self.allows(token):
            token = self._choice(chain, self.allowed(logits))
        self.accept(token)
        llama().llama_sampler_accept(chain, token)
        return token

    def allows(self, token: int) -> bool:
        one = self._data[:1].copy()
        one["id"], one["logit"] = token, 1.0
        return bool(len(self._held(one)))

    def accept(self, token: int) -> None:
        """One that it allows: any other would end the process.

        It is accepted character by character. llama.cpp follows each place that the grammar may be at through a whole
        token before it joins equal ones: measured, 80 equal characters took 11 s in a schema that is taken.
        """
        for one in self._spelling(token):
            llama().llama_sampler_accept(self._sampler, one)

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


class Spelling:
    """The tokens of a token's characters, one after the other; itself where the vocabulary lacks some of them."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self._of: dict[str, list[int]] = {}

    def __call__(self, token: int) -> list[int]:
        if llama().llama_vocab_is_eog(self._vocabulary, token):
            return [token]
        try:
            text = self._piece(token).decode()
        except UnicodeDecodeError:  # part of a character
            return [token]
        spelled = [self._of.get(one) or self._tokens(one) for one in text] if len(text) > 1 else []
        return [token] if not all(spelled) else [one for tokens in spelled for one in tokens] or [token]

    def _tokens(self, character: str) -> list[int]:
        """Empty where they say anything else, such as a space before."""
        runtime, data = llama(), character.encode()
        found = (runtime.llama_token * 8)()
        count = int(runtime.llama_tokenize(self._vocabulary, data, len(data), found, len(found), False, False))
        tokens = list(found[: max(0, count)])
        self._of[character] = tokens if b"".join(map(self._piece, tokens)) == data else []
        return self._of[character]

    def _piece(self, token: int) -> bytes:
        """As the grammar reads it: special tokens have their text."""
        buffer = ctypes.create_string_buffer(512)
        length = llama().llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, True)
        return buffer.raw[:length] if length > 0 else b""
