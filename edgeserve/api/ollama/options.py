"""The object ``options``: sampling, the length of an answer, and how Ollama loads a model."""

from __future__ import annotations

from edgeserve.api.openai.ending import MAX_STOP
from edgeserve.api.schema import Record
from edgeserve.api.values import Flag, Integer, Number, Texts
from edgeserve.messages import Sampling

MOST = 2**31 - 1
STOPS = 64
HELD = "accepted; the server's settings hold"
"""Words about options that say how Ollama loads a model. A model here is loaded as models.toml says."""


class Options(Record):
    """Options of one request. Unknown ones are taken and change nothing, as in Ollama."""

    OPEN = True
    num_predict = Integer("tokens of the answer at most; 0 and below: no limit", -MOST, MOST)
    temperature = Number("0 is greedy; left out: as configured", 0, 100)
    top_k = Integer("tokens considered; 0 and below: all", -MOST, MOST)
    top_p = Number("nucleus sampling: the probability that the tokens considered have together", 0, 1)
    min_p = Number("the least probability, as a share of the likeliest token's", 0, 1)
    seed = Integer("makes answers repeatable; negative: drawn", -(2**63), 2**63 - 1)
    stop = Texts("strings that end the answer", STOPS, chars=MAX_STOP)
    repeat_penalty = Number("divides the logits of tokens that were said", 0.01, 10)
    presence_penalty = Number("lowers the logits of tokens that were said", -2, 2)
    frequency_penalty = Number("lowers the logits of tokens by how often they were said", -2, 2)
    num_ctx = Integer("accepted; the context has the configured size, and no request loads the model anew", 0, MOST)
    num_keep = Integer(HELD, -MOST, MOST)
    num_batch = Integer(HELD, 0, MOST)
    num_gpu = Integer(HELD, -MOST, MOST)
    main_gpu = Integer(HELD, -MOST, MOST)
    num_thread = Integer(HELD, 0, MOST)
    draft_num_predict = Integer(HELD, 0, MOST)
    use_mmap = Flag(HELD)

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the answer at most; None: no limit but the server's."""
        limit = self.num_predict or 0
        return limit if limit > 0 else None

    def stops(self) -> tuple[str, ...]:
        return tuple(one for one in self.stop if one)

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=None if self.top_k is None else max(0, min(self.top_k, 100_000)),
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repeat_penalty,
            seed=None if self.seed is None or self.seed < 0 else self.seed,
        )
