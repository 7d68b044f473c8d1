"""Tokens that may not end an answer, or not before it has so many tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

IMPOSSIBLE = float("-inf")


class Endings:
    """Forbids ``tokens`` for the first ``least`` tokens of an answer; None: for all of them."""

    def __init__(self, tokens: Sequence[int], least: int | None) -> None:
        self._tokens = tokens
        self._least = least
        self._said = 0

    @property
    def forbidden(self) -> bool:
        return bool(self._tokens) and (self._least is None or self._said < self._least)

    def accept(self) -> None:
        """Count the next token of the answer."""
        self._said += 1

    @contextlib.contextmanager
    def applied(self, logits: Any) -> Iterator[None]:
        """Forbid the tokens in ``logits``, floats by token, and restore them afterwards: others read them, too."""
        if not self.forbidden:
            yield
            return
        before = [(token, logits[token]) for token in self._tokens]
        try:
            for token in self._tokens:
                logits[token] = IMPOSSIBLE
            yield
        finally:
            for token, logit in before:
                logits[token] = logit
