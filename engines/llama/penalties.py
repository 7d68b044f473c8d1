"""Biases and penalties on the logits of one answer, in llama.cpp's own buffer.

llama.cpp's sampler of penalties looks up every token of the vocabulary, although at most 64 are penalised. For 49,152
tokens that takes 0.2 ms, a fiftieth of a small model's token.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

WINDOW = 64
"""Latest tokens of the answer that penalties apply to, unless the request says otherwise (llama.cpp's default)."""


class Penalties:
    """Changes logits as llama.cpp's samplers do: biases first, then penalties on the latest tokens of the answer.

    biases     pairs of a token and the number added to its logit
    repeat     divides a logit above zero, and multiplies any other
    frequency  subtracted for each time that the token occurs
    presence   subtracted once
    window     latest tokens that count; None: all
    """

    def __init__(
        self,
        biases: Sequence[tuple[int, float]],
        repeat: float,
        frequency: float,
        presence: float,
        window: int | None = WINDOW,
    ) -> None:
        self._biases = biases
        self._window = window
        self._repeat, self._frequency, self._presence = repeat, frequency, presence
        self._said: deque[int] = deque()
        self._counts: Counter[int] = Counter()

    def accept(self, token: int) -> None:
        """Count the next token of the answer."""
        self._said.append(token)
        self._counts[token] += 1
        if self._window is not None and len(self._said) > self._window:
            oldest = self._said.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]

    @contextlib.contextmanager
    def applied(self, logits: Any) -> Iterator[None]:
        """Change ``logits``, floats by token, in place, and restore them afterwards: others read them, too."""
        # Plain Python: a step of the model leaves the CPU caches cold, and each call of NumPy then takes 10 µs.
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
