"""Answers without a model: a context that knows what each output has seen, and a sampler that throws dice on it.

Everything is exact, so that two ways to the same answer can be compared token by token.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from support.counting import CountingContext

from edgeserve.engine import Cancel
from edgeserve.engines.llama.answer import Prompt, answer, held
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.draft_model import DraftModel
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.engines.llama.forced import NOTHING, Ahead
from edgeserve.messages import ChatEvent, ChatRequest, PromptEvent

PIECES = (b"", b"a", b"b", b"ab", b" ", b"\xc3", b"\xa4", b"<think>", b"</think>", b"c")
"""The tokens by number; the first ends an answer."""
END = 0


class SpellingModel:
    """Tokens with a text."""

    window = 0

    def ends(self, token: int) -> bool:
        return token == END

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return PIECES[token]


class SpellingContext(CountingContext):
    """Its logits are the tokens that the output has seen. The next call overwrites them."""

    def __init__(self, size: int, *, cuttable: bool = True) -> None:
        super().__init__(size, cuttable=cuttable)
        self.model = SpellingModel()
        self.handle = self
        self._seen: dict[int, list[int]] = {}

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        before = {sequence: list(held) for sequence, held in self.held.items()}
        if not super().decode(wanted):
            return False
        self._seen = {}
        for at, item in enumerate(wanted):
            before.setdefault(item.sequence, []).append(item.token)
            if item.output:
                self._seen[at] = list(before[item.sequence])
        return True

    def logits(self, output: int) -> list[int]:
        return self._seen[output]

    def likeliest(self, output: int) -> int:
        """The token that DiceSampler mostly takes after the latest two; ``output`` counts as in llama.cpp."""
        return usual(self._seen[output])


def usual(seen: Sequence[int]) -> int:
    """The token that follows from the latest two."""
    return 1 + random.Random(f"{seen[-2:]}").randrange(len(PIECES) - 1)


class DiceSampler:
    """Chooses by all tokens seen, by its own latest choices and by one throw of its dice a token.

    ``fancy``: share of free choices; the others follow from the latest two tokens, so that the text repeats itself.
    """

    def __init__(self, seed: int, fancy: float, *, constrained: bool = False) -> None:
        self.constrained = constrained
        self._dice, self._fancy = random.Random(seed), fancy
        self._said: list[int] = []

    def sample(self, context: Any, output: int) -> int:
        return self.sample_constrained(context.logits(output))

    def sample_constrained(self, seen: Sequence[int]) -> int:
        throw = self._dice.random()
        if throw < self._fancy:
            token = random.Random(f"{seen} {self._said[-4:]} {throw}").randrange(len(PIECES))
        else:
            token = usual(seen)
        self._said.append(token)
        return token

    def ahead(self) -> Ahead:
        return NOTHING

    def accept(self, tokens: Sequence[int]) -> None:
        self._said += tokens


def spelling_batch(
    size: int, slots: int, drafts: Drafts | None = None, model: DraftModel | None = None
) -> tuple[Batch, SpellingContext]:
    context: Any = SpellingContext(size)
    return Batch(context, slots, PrefixCache(0), drafts, model), context


def draft_model(size: int = 500, cost: float = 0.0, *, cuttable: bool = True) -> tuple[DraftModel, SpellingContext]:
    """A draft model that knows the usual next token, and its context. Each call takes ``cost`` seconds."""
    context: Any = SpellingContext(size, cuttable=cuttable)
    return DraftModel(context, len(PIECES), cost, slope(cost)), context


def spell(
    batch: Batch, tokens: Sequence[int], request: ChatRequest, sampler: Any, limit: int, cancel: Cancel
) -> Generator[ChatEvent | None, None, None]:
    """The events of one answer."""
    slot, cached = batch.take(tokens)
    background = Background(lambda: batch.busy)
    background.slots = 1
    try:
        if request.count:
            yield from held(slot, [PromptEvent(len(tokens), cached)])
        yield from answer(batch, Prompt(slot, len(tokens), cached), request, sampler, limit, cancel, background)
    finally:
        batch.give_back(slot)


def slope(of: float) -> Callable[[], float]:
    """A clock for Drafts whose calls all take ``of`` seconds."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += of
        return now

    return clock
