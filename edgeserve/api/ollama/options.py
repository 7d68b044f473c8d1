"""The object ``options``: sampling, the length of an answer, and how Ollama loads a model."""

from __future__ import annotations

from edgeserve.api.openai.ending import MAX_STOP, MAX_STOPS
from edgeserve.api.openai.sampling import MAX_TEMPERATURE
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.schema import Record
from edgeserve.api.values import Flag, Ignored, Integer, Number, Texts
from edgeserve.messages import Sampling

MOST = 2**31 - 1
MOST_CANDIDATES = 100_000
HELD = "accepted; the server's settings hold"
"""Words about options that say how Ollama loads a model. A model here is loaded as models.toml says."""


class Options(Record):
    """Options of one request."""

    num_predict = Integer("tokens of the answer at most; 0 and below: no limit", -MOST, MOST)
    num_ctx = Integer("tokens of prompt and answer together at most; more than configured: as configured", 0, MOST)
    temperature = Number("0 is greedy; left out: as configured", 0, MAX_TEMPERATURE)
    top_k = Integer("tokens considered; 0 and below: all", -MOST, MOST)
    top_p = Number("nucleus sampling: the probability that the tokens considered have together", 0, 1)
    min_p = Number("the least probability, as a share of the likeliest token's", 0, 1)
    typical_p = Number("locally typical sampling: the probability of the tokens considered", 0, 1)
    seed = Integer("makes answers repeatable; negative: drawn", -(2**63), 2**63 - 1)
    stop = Texts("strings that end the answer", MAX_STOPS, chars=MAX_STOP)
    repeat_penalty = Number("divides the logits of tokens that were said", 0.01, 10)
    presence_penalty = Number("lowers the logits of tokens that were said", -2, 2)
    frequency_penalty = Number("lowers the logits of tokens by how often they were said", -2, 2)
    repeat_last_n = Integer("latest tokens of the answer that penalties count; 0: none, -1: all", -1, MAX_TOKENS)
    mirostat = Integer("1 or 2: holds the surprise of the answer instead of other filters; 0: off", 0, 2)
    mirostat_tau = Number("the surprise that mirostat aims at", 0, 100)
    mirostat_eta = Number("how fast mirostat learns", 0, 1)
    num_keep = Integer(HELD, -MOST, MOST)
    num_batch = Integer(HELD, 0, MOST)
    num_gpu = Integer(HELD, -MOST, MOST)
    main_gpu = Integer(HELD, -MOST, MOST)
    num_thread = Integer(HELD, 0, MOST)
    draft_num_predict = Integer(HELD, 0, MOST)
    use_mmap = Flag(HELD)
    use_mlock = Ignored(HELD)
    numa = Ignored(HELD)
    low_vram = Ignored(HELD)
    f16_kv = Ignored(HELD)
    vocab_only = Ignored(HELD)
    penalize_newline = Ignored("accepted; llama.cpp has it no more")
    tfs_z = Ignored("accepted; llama.cpp has it no more")

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the answer at most; None: no limit but the server's."""
        limit = self.num_predict or 0
        return limit if limit > 0 else None

    @property
    def context(self) -> int | None:
        """Tokens of prompt and answer together at most; None: as many as the context holds."""
        return self.num_ctx or None

    def stops(self) -> tuple[str, ...]:
        return tuple(one for one in self.stop if one)

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=None if self.top_k is None else max(0, min(self.top_k, MOST_CANDIDATES)),
            min_p=self.min_p,
            typical_p=self.typical_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repeat_penalty,
            repeat_last_n=self.repeat_last_n,
            mirostat=self.mirostat,
            mirostat_tau=self.mirostat_tau,
            mirostat_eta=self.mirostat_eta,
            seed=None if self.seed is None or self.seed < 0 else self.seed,
        )
