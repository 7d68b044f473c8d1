"""A chat engine whose guesses come from a test, and are all drafted."""

from __future__ import annotations

import random
from collections.abc import Sequence

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.draft_model import DraftModel
from edgeserve.engines.llama.drafts import Drafter, Drafts, Guess, NoDrafter

VERSIONS = ("right", "wrong", "mixed")


class Oracle(Drafter):
    """Knows the tokens of an answer, and guesses them with ``mistakes`` in that share of the tokens."""

    def __init__(self, known: Sequence[int], mistakes: float, longest: int) -> None:
        self._known, self._at = known, 0
        self._mistakes, self._longest = mistakes, longest
        self._dice = random.Random(len(known))

    def note(self, tokens: Sequence[int], forced: Sequence[int] = ()) -> None:
        self._at += len(tokens) + len(forced)

    def guess(self, likely: Sequence[int] = ()) -> Guess | None:
        length = self._dice.randrange(self._longest + 1)
        true = self._known[self._at : self._at + length]
        tokens = [one - 1 if self._dice.random() < self._mistakes else one for one in true]
        return Guess(tokens, 1.0, 0) if tokens else None


class GuessingDrafts(Drafts):
    """Drafts each guess as far as there is room. ``known``: tokens of the next answers, the first first."""

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self.known: list[Sequence[int]] = []
        self.mistakes = 0.0
        self.planned = 0

    def writer(self, tokens: Sequence[int]) -> Drafter:
        return Oracle(self.known.pop(0), self.mistakes, self.longest) if self.known else NoDrafter()

    def plan(self, guesses: Sequence[Guess | None], room: int, forced: int = 0) -> list[int]:
        counts = []
        room = min(room, self.longest)
        for guess in guesses:
            counts.append(max(0, min(room, len(guess.tokens) if guess else 0)))
            room -= counts[-1]
        self.planned += sum(counts)
        return counts


class GuessingChat(LlamaChat):
    """LlamaChat with GuessingDrafts."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.guessing = GuessingDrafts(0)

    def _make_drafts(self, context: Context, model: DraftModel | None = None) -> Drafts:
        self.guessing = GuessingDrafts(super()._make_drafts(context).longest)
        return self.guessing
