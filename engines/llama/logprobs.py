"""Log probabilities of a sampled token and of the likeliest tokens in its place."""

from __future__ import annotations

from typing import Any

from edgeserve.engines.llama.context import Context
from edgeserve.messages import Candidate, TokenLogprob


class Logprobs:
    """Log probabilities by the model's own logits, before temperature, penalties, biases and grammar."""

    def __init__(self, context: Context, alternatives: int) -> None:
        self._context = context
        self._alternatives = alternatives

    def of(self, token: int, logits: Any) -> TokenLogprob:
        """The log probability of ``token``, and those of the likeliest alternatives.

        ``logits``: the ones that ``token`` was sampled by, float32, one for each token of the vocabulary.
        """
        import numpy

        logits = logits.astype(numpy.float64)
        logits -= logits.max()
        logits -= numpy.log(numpy.exp(logits).sum())
        count = min(self._alternatives, len(logits))
        best = numpy.argpartition(logits, -count)[-count:] if count else logits[:0].astype(int)
        ranked = sorted(map(int, best), key=lambda one: (-logits[one], one))

        def candidate(one: int) -> Candidate:
            # JSON has no infinity: OpenAI writes -9999 for a token of probability 0.
            return Candidate(self._context.model.piece(one, special=True), max(-9999.0, float(logits[one])))

        return TokenLogprob(candidate(token), tuple(map(candidate, ranked)))
