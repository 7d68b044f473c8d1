"""A smaller model of the same vocabulary that guesses the next tokens of answers (Leviathan et al., 2023).

It has a context of its own, with a sequence for each slot. Before it guesses it reads the tokens of the slot that it
does not know yet.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.context import Context, Item
from edgeserve.engines.llama.pace import Pace, median
from edgeserve.engines.llama.slot import Slot
from edgeserve.engines.llama.state_index import shared

KEPT = 3
"""Latest calls that read a prompt, whose median counts."""
READS = 4
"""Tokens of a prompt that take as long as one guessed token, before any prompt was read."""


@dataclass(slots=True)
class Known:
    """A sequence of the draft model. ``use``: the answer that it follows; ``sure``: its first tokens, which are those
    of the answer. ``full``: the context has no room for the answer, no such token, or no such sequence."""

    use: int = 0
    tokens: list[int] = field(default_factory=list)
    sure: int = 0
    full: bool = False


class DraftModel:
    """Guesses the likeliest tokens. One thread at a time.

    - ``tokens``: tokens of the vocabulary that both models have
    - ``share``: its weights as a share of those of the model that it guesses for
    - ``pace``: the cost of its calls of a few tokens
    """

    def __init__(
        self, context: Context, tokens: int, share: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._context = context
        self._tokens = tokens
        self._clock = clock
        self._sequences: dict[int, Known] = {}
        self._read: deque[float] = deque(maxlen=KEPT)
        self.share = share
        self.pace = Pace()

    def behind(self, slot: Slot) -> int | None:
        """Tokens of the slot to read before a guess, at least one; None without room for the slot."""
        known = self._settle(slot)
        return None if known.full else len(slot.tokens) + len(slot.pending) - known.sure

    def reading(self, token: float) -> float:
        """Seconds to read a token of a prompt. ``token``: those of a guessed one."""
        return median(self._read) if self._read else token / READS

    def read(self, slot: Slot, most: int) -> None:
        """Read at most ``most`` tokens of the slot, but not its last one. Raises EngineFailure."""
        begun = self._settle(slot).sure
        tokens = [*slot.tokens, *slot.pending][begun:-1][: min(most, self._context.batch)]
        began = self._clock()
        if self._decode([(slot, tokens)]):
            self._read.append((self._clock() - began) / len(tokens))

    def guess(self, wanted: Sequence[tuple[Slot, int]]) -> list[list[int]]:
        """So many tokens for each slot; fewer where one ends the answer, or there is no room. Raises EngineFailure."""
        found: list[list[int]] = [[] for _ in wanted]
        coming = self._unread([slot for slot, _ in wanted])
        while coming:
            began = self._clock()
            if not self._decode([(wanted[at][0], tokens) for at, tokens in coming.items()]):
                return found
            output, following = -1, dict[int, Sequence[int]]()
            for at, tokens in coming.items():
                output += len(tokens)
                token = self._context.likeliest(output)
                if token < self._tokens:
                    found[at].append(token)
                    if len(found[at]) < wanted[at][1] and not self._context.model.ends(token):
                        following[at] = [token]
            self.pace.note(sum(map(len, coming.values())), self._clock() - began)
            coming = following
        return found

    def _unread(self, slots: Sequence[Slot]) -> dict[int, Sequence[int]]:
        """The tokens that are still to be read, by the number of their slot. Slots beyond one call are left out."""
        coming: dict[int, Sequence[int]] = {}
        room = self._context.batch
        for at, slot in enumerate(slots):
            known = self._settle(slot)
            tokens = [*slot.tokens, *slot.pending][known.sure :]
            known.full |= any(token >= self._tokens for token in tokens)  # here, so that the others are read
            if not known.full and len(tokens) <= room:
                coming[at] = tokens
                room -= len(tokens)
        return coming

    def free(self) -> None:
        """Free the context and the weights."""
        self._context.free()
        self._context.model.cool()
        llama_model.release(self._context.model)

    def _settle(self, slot: Slot) -> Known:
        """Remove the tokens that are not the slot's. At least the last token of the slot stays to be read."""
        known = self._sequences.setdefault(slot.sequence, Known())
        if known.use != slot.used:
            known.use, known.sure = slot.used, 0
            known.full = slot.sequence >= self._context.sequences
        wanted = [*slot.tokens, *slot.pending]
        kept = known.sure + shared(known.tokens[known.sure :], wanted[known.sure :])
        kept = min(kept, len(wanted) - 1)
        if kept < len(known.tokens) and not self._context.cut(slot.sequence, kept):
            self._context.clear(slot.sequence)
            kept = 0
        del known.tokens[kept:]
        known.sure = kept
        return known

    def _decode(self, parts: Sequence[tuple[Slot, Sequence[int]]]) -> bool:
        """Decode in one call, with the logits of each part's last token. False when the context has no room."""
        items = [
            Item(token, len(self._sequences[slot.sequence].tokens) + at, slot.sequence, at == len(tokens) - 1)
            for slot, tokens in parts
            for at, token in enumerate(tokens)
        ]
        known = all(item.token < self._tokens for item in items)
        if not known or not (
            self._context.decode(items) or (self._forget_others(parts) and self._context.decode(items))
        ):
            for slot, _ in parts:
                self._sequences[slot.sequence].full = True
            return False
        self._context.wait()
        for slot, tokens in parts:
            self._sequences[slot.sequence].tokens += tokens
        return True

    def _forget_others(self, parts: Sequence[tuple[Slot, Sequence[int]]]) -> bool:
        """Remove the tokens of all other slots. False when there are none."""
        others = self._sequences.keys() - {slot.sequence for slot, _ in parts}
        for sequence in others:
            self._context.clear(sequence)
            del self._sequences[sequence]
        return bool(others)
