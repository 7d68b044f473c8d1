"""Biases and penalties on the logits of one answer, in the place where llama.cpp keeps them.

llama.cpp's own sampler of penalties looks up every token of the vocabulary, 0.2 ms for 49,152 of them, where at most 64
are penalised: measured, a fiftieth of a small model's token.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

WINDOW = 64
"""Tokens of the answer that penalties look back on (llama.cpp's default)."""


class Penalties:
    """``biases`` (token, what is added) come first, then what was said last is penalised, as llama.cpp's samplers do:
    ``repeat`` divides logits above zero and multiplies the others, ``frequency`` is subtracted for each time, and
    ``presence`` once."""

    def __init__(self, biases: Sequence[tuple[int, float]], repeat: float, frequency: float, presence: float) -> None:
        self._biases = biases
        self._repeat, self._frequency, self._presence = repeat, frequency, presence
        self._said: deque[int] = deque()
        self._counts: Counter[int] = Counter()

    def said(self, token: int) -> None:
        """The next token of the answer."""
        self._said.append(token)
        self._counts[token] += 1
        if len(self._said) > WINDOW:
            oldest = self._said.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]

    @contextlib.contextmanager
    def on(self, logits: Any) -> Iterator[None]:
        """``logits``, floats by token, are changed meanwhile, and then as they were: others read them, too."""
        # In plain Python: with caches as cold as a step of the model leaves them, each call of NumPy takes 10 µs.
        before = {token: logits[token] for token in (*self._counts, *(token for token, _ in self._biases))}
        try:
            for token, bias in self._biases:
                logits[token] += bias
            for token, count in self._counts.items():
                logit = logits[token]
                logit = logit * self._repeat if logit <= 0 else logit / self._repeat
                logits[token] = logit - (count * self._frequency + self._presence)
            yield
        finally:
            for token, logit in before.items():
                logits[token] = logit
