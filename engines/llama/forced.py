"""The text that a grammar leaves as the only continuation: keys, punctuation and the ends of enumerated values.

Jump-forward decoding (SGLang, 2024).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.runtime import llama

LONGEST = 64
"""Characters of a forced text. The next one begins after them."""
LARGEST = 20_000
"""Characters of a grammar. llama.cpp copies all of it for a forced text, which takes longer than it saves."""
MOST_PROBES = 400
SPACE = " "
ASCII = "".join(map(chr, range(0x20, 0x7F)))
ESCAPED = r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([nrt]))"
"""A character of GBNF that is written as its number, or as a letter."""
WHITE = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Ahead:
    """``certain``: the only continuation. ``likely``: begins with it, and continues beyond choices of a space."""

    certain: str
    likely: str


NOTHING = Ahead("", "")


def probes(grammar: str) -> list[str]:
    """Characters of which every choice of a grammar allows some: if one alone is allowed, there is no choice.

    They are visible ASCII, most of which negated classes hold, and all that the grammar names: literals and the ends of
    ranges.
    """
    return [*ASCII, *sorted({*map(_character, re.finditer(ESCAPED, grammar)), *grammar} - set(ASCII))]


def _character(escaped: re.Match[str]) -> str:
    number = escaped[1] or escaped[2] or escaped[3]
    return chr(int(number, 16)) if number else WHITE[escaped[4]]


class Forced:
    """Finds the forced text of a state of ``grammar``, in GBNF that names no tokens.

    ``apply`` filters rows of tokens by a sampler of the grammar. ``tokens_of``: tokens of a character, empty where the
    vocabulary cannot spell it. ``end``: a token that ends an answer.
    """

    def __init__(
        self,
        grammar: str,
        apply: Callable[[Any, Any], Any],
        tokens_of: Callable[[str], Sequence[int]],
        end: int,
    ) -> None:
        import numpy as np

        spelled = {one: tokens_of(one) for one in probes(grammar)} if len(grammar) <= LARGEST else {}
        self._sound = 0 < len(spelled) <= MOST_PROBES and all(spelled.values()) and end >= 0
        self._apply = apply
        # The first token of several may begin other characters, too: it counts as a choice.
        self._characters = [*(one if len(tokens) == 1 else "" for one, tokens in spelled.items()), ""]
        self._rows = np.zeros(len(self._characters), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        if self._sound:
            self._rows["id"] = [*(tokens[0] for tokens in spelled.values()), end]
        self._spaced = True

    def note(self, text: str) -> None:
        """Learn from a token of the answer whether the model puts a space where the grammar lets it choose."""
        if '":' in text:
            self._spaced = text.partition('":')[2][:1] in ("", SPACE)

    def ahead(self, grammar: Any) -> Ahead:
        """The text after a state, which stays as it is."""
        if not self._sound:
            return NOTHING
        found, certain, copy = "", -1, None
        try:
            while len(found) < LONGEST:
                allowed = self._allowed(copy or grammar)
                if len(allowed) == 2 and SPACE in allowed and "" not in allowed:
                    certain = len(found) if certain < 0 else certain
                    allowed = {one: at for one, at in allowed.items() if (one == SPACE) is self._spaced}
                if len(allowed) != 1 or "" in allowed:
                    break
                ((character, at),) = allowed.items()
                copy = copy or llama().llama_sampler_clone(grammar)
                llama().llama_sampler_accept(copy, int(self._rows["id"][at]))
                found += character
        finally:
            if copy:
                llama().llama_sampler_free(copy)
        return Ahead(found if certain < 0 else found[:certain], found)

    def _allowed(self, grammar: Any) -> dict[str, int]:
        """The allowed characters and their rows; "" stands for the end, and for what is no single token."""
        rows = self._rows
        rows["logit"] = 1.0
        self._apply(grammar, rows)
        (allowed,) = (rows["logit"] > float("-inf")).nonzero()
        return {self._characters[at]: int(at) for at in allowed}
