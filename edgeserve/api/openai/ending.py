"""Fields that say where an answer ends: tokens, stop strings, stop tokens and the context."""

from __future__ import annotations

from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.schema import Record
from edgeserve.api.values import Flag, Integer, Integers, Texts

MAX_STOP = 500
"""Characters of a stop string. The engine compares each token with all beginnings of the string."""
MAX_STOPS = 256
"""Stop strings, which the engine looks for after each token."""
MAX_STOP_TOKENS = 256
MAX_TOKEN = 2**31 - 1
"""The largest token id."""
UNLIMITED = "-1: until the model ends; 0: only read the prompt"


class Ended(Record):
    """Fields of chat completions and completions."""

    max_completion_tokens = Integer(f"tokens of one answer at most; {UNLIMITED}", -1, MAX_TOKENS)
    max_tokens = Integer("the older name of max_completion_tokens", -1, MAX_TOKENS)
    n_predict = Integer("llama-server's name of max_tokens; -2: until the context is full", -2, MAX_TOKENS)
    min_tokens = Integer("the model cannot end its answer before so many tokens", 0, MAX_TOKENS, default=0)
    num_ctx = Integer("tokens of prompt and answer together at most; more than configured: as configured", 1, MAX_TOKEN)
    ignore_eos = Flag("the model cannot end its answer")
    stop = Texts("strings that end the answer", MAX_STOPS, chars=MAX_STOP)
    stop_token_ids = Integers("tokens that end the answer", MAX_STOP_TOKENS, 0, MAX_TOKEN)

    def most_tokens(self, default: int | None = None) -> int | None:
        """Tokens of an answer at most, by the first field that says so; None: until the model ends."""
        for given in (self.max_completion_tokens, self.max_tokens, self.n_predict):
            if given is not None:
                return given if given >= 0 else None
        return default

    def stops(self) -> tuple[str, ...]:
        return tuple(one for one in self.stop if one)
