"""Adds drafts to the answers of a call: guesses that they brought, and those that the draft model makes now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.drafts import CROWDED, Drafts, Guess
from edgeserve.engines.llama.slot import Share, Slot

if TYPE_CHECKING:
    from edgeserve.engines.llama.draft_model import DraftModel

ROOM = 2
"""Tokens to leave free for each answer, beside the drafts of all."""
CAUGHT_UP = 32
"""Tokens that the draft model reads with its first guess. More are read beforehand, a piece in each call."""


class Drafting:
    """``slots``: all slots of the context. ``model``: the draft model; None without one."""

    def __init__(self, context: Context, slots: Sequence[Slot], drafts: Drafts, model: DraftModel | None) -> None:
        self._context, self._slots = context, slots
        self._drafts, self._model = drafts, model

    def add(self, shares: Sequence[Share]) -> None:
        """Add to each answer as much of its guess as pays, and as has room in the call and beside all answers."""
        spare = self._context.size - sum(slot.cells + ROOM for slot in self._slots if slot.busy)
        spare = min(spare, self._context.batch - sum(len(share.tokens) for share in shares))
        spare = min(spare, self._context.outputs - len(shares))
        # A guess follows all that is pending, which may be more than the call has room for.
        guesses = [share.slot.guess if len(share.tokens) == len(share.slot.pending) else None for share in shares]
        forced = sum(len(share.tokens) - 1 for share in shares)
        counts = self._drafts.plan(guesses, spare, forced)
        self._ask([(share.slot, count) for share, count in zip(shares, counts, strict=True)], beside=len(shares) - 1)
        for share, guess, count in zip(shares, guesses, counts, strict=True):
            share.draft.extend(guess.tokens[:count] if guess is not None else ())

    def _ask(self, planned: Sequence[tuple[Slot, int]], beside: int) -> None:
        """Let the draft model make the guesses that are open. Those of answers that it has not read stay empty."""
        model = self._model
        if model is None:
            return
        wanted = [
            (slot, count, slot.guess)
            for slot, count in planned
            if count and slot.guess is not None and slot.guess.open and self._reads(model, slot, slot.guess, beside)
        ]
        found = model.guess([(slot, count) for slot, count, _ in wanted]) if wanted else ()
        for (_, _, guess), tokens in zip(wanted, found, strict=True):
            guess.tokens = tokens

    def _reads(self, model: DraftModel, slot: Slot, guess: Guess, beside: int) -> bool:
        """Whether the draft model has read the answer. If not, and that pays, it reads a piece.

        An answer is expected to last as long again as it has lasted. So reading pays once guesses would have saved the
        time that it takes. An answer that ends at that moment has lost no more than it could have won.
        """
        behind = model.behind(slot)
        if behind is None or behind <= CAUGHT_UP:
            return behind is not None
        drafts = self._drafts
        token, step = model.reading(drafts.drafting), drafts.pace.cost(1)
        saved = step - 1 / drafts.rate(guess) if drafts.rate(guess) else 0.0
        if guess.written * saved >= behind * token:
            # Other answers wait meanwhile, as they do for a draft.
            most = int((CROWDED - 1) * step / token) if beside and token else self._context.batch
            model.read(slot, max(CAUGHT_UP, most))
        return False
