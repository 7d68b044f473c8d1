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

    def __init__(
        self, biases: Sequence[tuple[int, float]], repeat: float = 1.0, frequency: float = 0.0, presence: float = 0.0
    ) -> None:
        import numpy

        self._biased = numpy.array([token for token, _ in biases], numpy.intp)
        self._biases = numpy.array([bias for _, bias in biases], numpy.float32)
        self._repeat, self._frequency, self._presence = map(numpy.float32, (repeat, frequency, presence))
        self._said: deque[int] | None = deque() if repeat != 1 or frequency or presence else None
        self._counts: Counter[int] = Counter()

    @property
    def idle(self) -> bool:
        """Do they never change anything?"""
        return self._said is None and not len(self._biased)

    def said(self, token: int) -> None:
        """The next token of the answer."""
        if self._said is None:
            return
        self._said.append(token)
        self._counts[token] += 1
        if len(self._said) > WINDOW:
            oldest = self._said.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]

    @contextlib.contextmanager
    def on(self, logits: Any) -> Iterator[None]:
        """``logits``, float32 [vocabulary], are changed meanwhile, and then as they were: others read them, too."""
        import numpy

        unbiased = logits[self._biased]
        numpy.add.at(logits, self._biased, self._biases)  # a token may be named twice
        penalised = numpy.fromiter(self._counts, numpy.intp, len(self._counts))
        before = logits[penalised]
        logits[penalised] = self._penalty(before)
        try:
            yield
        finally:
            logits[penalised] = before
            logits[self._biased] = unbiased

    def _penalty(self, logits: Any) -> Any:
        import numpy

        counts = numpy.fromiter(self._counts.values(), numpy.float32, len(self._counts))
        repeated = numpy.where(logits <= 0, logits * self._repeat, logits / self._repeat)
        return repeated - (counts * self._frequency + self._presence)
