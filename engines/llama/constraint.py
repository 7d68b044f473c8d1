"""A grammar beside a sampler chain. The chain samples freely, and again when the grammar forbids the sampled token.

Checking the whole vocabulary against a grammar takes longer than a token of a small model (0.2 s for nested arrays). So
the second choice is among the likeliest tokens that the grammar allows. It is among all tokens only when the grammar
allows none of those.
"""

from __future__ import annotations

import ctypes
from typing import Any

from edgeserve.engines.grammar.paths import LENGTH
from edgeserve.engines.llama.forced import Ahead, Forced
from edgeserve.engines.llama.runtime import error_details, llama
from edgeserve.errors import EdgeserveError, InvalidRequest

LIKELIEST = (256, 4096)
"""Numbers of likeliest tokens to check, one after the other. A chain almost never samples beyond the first; the second
serves requests whose biases lift forbidden tokens above all others."""
SHORT, LONG = 1, 2
"""Kinds of tokens: of LENGTH characters at most, or of more. llama.cpp follows each way through a whole token, and
nothing stops it. The ways are counted for LENGTH characters, but vocabularies have tokens of 80 and more."""


class Constraint:
    """The grammar of one answer, as GBNF. Free it after the answer.

    ``field``: the field of the request that errors name. Raises InvalidRequest for a grammar that llama.cpp refuses.
    """

    def __init__(self, grammar: str, vocabulary: Any, field: str = "response_format") -> None:
        runtime = llama()
        self._sampler = runtime.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
        if not self._sampler:
            text = f"llama.cpp cannot use the grammar of this schema{error_details()}; write it more simply"
            raise InvalidRequest(text, param=field)
        self._spelling = Spelling(vocabulary)
        self._grammar, self._end = grammar, int(runtime.llama_vocab_eos(vocabulary))
        self._forced: Forced | None = None
        self._set(vocabulary, field)

    def _set(self, vocabulary: Any, field: str) -> None:
        """The rows of candidates, and the field of errors."""
        import numpy as np

        self._field = field
        self.tokens = int(llama().llama_vocab_n_tokens(vocabulary))
        self._ids = np.arange(self.tokens, dtype=np.int32)
        self._data = np.zeros(self.tokens, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        self._kinds = np.zeros(self.tokens, np.int8)

    def sample(self, chain: Any, logits: Any) -> int:
        """Sample the next token, which the grammar and the chain then accept.

        ``logits``: float32, one for each token of the vocabulary. Raises InvalidRequest when the grammar allows no
        token: llama.cpp would abort the process on the next one.
        """
        token = self._choose(chain, self._rows(logits, self.tokens))
        if not self.allows(token):
            token = self._choose(chain, self.allowed(logits))
        self.accept(token)
        llama().llama_sampler_accept(chain, token)
        return token

    def allows(self, token: int) -> bool:
        """Whether the grammar allows ``token`` next. A long one is followed character by character."""
        one = self._data[:1].copy()
        one["id"], one["logit"] = token, 1.0
        if self._short(one["id"])[0]:
            return bool(len(self._filter(one)))
        spelled, copy = self._spelling(token), llama().llama_sampler_clone(self._sampler)
        try:
            return len(spelled) > 1 and all(self._goes_on(copy, one, character) for character in spelled)
        finally:
            llama().llama_sampler_free(copy)

    def _goes_on(self, copy: Any, row: Any, character: int) -> bool:
        """Whether a copy of the grammar allows a token of one character; if so, the copy has accepted it."""
        row["id"], row["logit"] = character, 1.0
        self._apply(copy, row)
        if row["logit"][0] == float("-inf"):
            return False
        llama().llama_sampler_accept(copy, character)
        return True

    def _short(self, ids: Any) -> Any:
        """True for each of these tokens that has at most LENGTH characters, or ends an answer."""
        unknown = ids[self._kinds[ids] == 0]
        if len(unknown):
            self._kinds[unknown] = [LONG if self._spelling.is_long(token) else SHORT for token in unknown.tolist()]
        return self._kinds[ids] == SHORT

    def accept(self, token: int) -> None:
        """Advance the grammar by a token that it allows; any other would abort the process."""
        if self._forced is not None:
            self._forced.note(self._spelling.text(token))
        # Character by character: llama.cpp follows every parse state through a whole token before it joins equal ones.
        # Measured, a token of 80 equal characters took 11 s with a valid schema.
        for one in self._spelling(token):
            llama().llama_sampler_accept(self._sampler, one)

    def ahead(self) -> Ahead:
        """The text that alone can come next."""
        if self._forced is None:
            self._forced = Forced(self._grammar, self._apply, self._spelling.tokens_of, self._end)
        return self._forced.ahead(self._sampler)

    def free(self) -> None:
        llama().llama_sampler_free(self._sampler)

    def _rows(self, logits: Any, count: int) -> Any:
        """Rows (id, logit, p) of the ``count`` likeliest tokens."""
        import numpy as np

        rows = self._data[:count]
        if count == self.tokens:
            rows["id"], rows["logit"] = self._ids, logits
        else:
            rows["id"] = np.argpartition(logits, -count)[-count:]
            rows["logit"] = logits[rows["id"]]
        return rows

    def allowed(self, logits: Any) -> Any:
        """Rows of the likeliest tokens that the grammar allows; the chain can sample no forbidden token from them."""
        for count in (*(one for one in LIKELIEST if one < self.tokens), self.tokens):
            if len(rows := self._filter(self._rows(logits, count))):
                return rows
        raise InvalidRequest(
            "no token of this model goes on with the answer as its schema wants it; use other characters in const, "
            "enum and patterns",
            param=self._field,
        )

    def _filter(self, rows: Any) -> Any:
        """The rows of short tokens that the grammar allows."""
        rows = rows[self._short(rows["id"])]
        # llama.cpp sets the logits of the forbidden tokens to minus infinity.
        self._apply(self._sampler, rows)
        return rows[rows["logit"] > float("-inf")]

    def _choose(self, chain: Any, rows: Any) -> int:
        if not len(rows):
            raise RuntimeError("there is no token to sample from, on which llama.cpp would abort the process")
        candidates = self._apply(chain, rows)
        if not 0 <= candidates.selected < candidates.size:
            raise EdgeserveError("llama.cpp's samplers chose no token: the model's logits are no numbers")
        return int(candidates.data[candidates.selected].id)

    @staticmethod
    def _apply(sampler: Any, rows: Any) -> Any:
        """Apply a sampler to ``rows``. The returned llama_token_data_array is valid as long as ``rows`` are."""
        runtime = llama()
        pointer = rows.ctypes.data_as(ctypes.POINTER(runtime.llama_token_data))
        candidates = runtime.llama_token_data_array(pointer, len(rows), -1, False)
        runtime.llama_sampler_apply(sampler, ctypes.byref(candidates))
        return candidates


class Spelling:
    """Splits a token into tokens of one character each. A token stays whole when the vocabulary lacks one of them."""

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
        spelled = [self.tokens_of(one) for one in text] if len(text) > 1 else []
        return [token] if not all(spelled) else [one for tokens in spelled for one in tokens] or [token]

    def text(self, token: int) -> str:
        """The text of a token, with marks in place of parts of characters."""
        return self._piece(token).decode(errors="replace")

    def is_long(self, token: int) -> bool:
        """Whether a token has more than LENGTH characters. False for one that ends an answer, whose name is no text."""
        runtime = llama()
        if len(runtime.llama_vocab_get_text(self._vocabulary, token) or b"") <= LENGTH:
            return False  # a byte of this text, or more, is a character: a third of the time of a piece
        return not runtime.llama_vocab_is_eog(self._vocabulary, token) and len(self.text(token)) > LENGTH

    def tokens_of(self, character: str) -> list[int]:
        """Tokens of a character; empty when their text differs from it, such as by a leading space."""
        return self._of.get(character) or self._tokens(character)

    def _tokens(self, character: str) -> list[int]:
        runtime, data = llama(), character.encode()
        found = (runtime.llama_token * 8)()
        count = int(runtime.llama_tokenize(self._vocabulary, data, len(data), found, len(found), False, False))
        tokens = list(found[: max(0, count)])
        self._of[character] = tokens if b"".join(map(self._piece, tokens)) == data else []
        return self._of[character]

    def _piece(self, token: int) -> bytes:
        """The bytes of a token as the grammar reads it: special tokens have their text."""
        buffer = ctypes.create_string_buffer(512)
        length = llama().llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, True)
        return buffer.raw[:length] if length > 0 else b""
