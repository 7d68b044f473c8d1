"""Continuous batching: the conversations under way are decoded together, one token each, in calls that also take in a
piece of each new prompt (Orca, OSDI 2022; llama.cpp's server does the same).

A slot is a sequence of the context. When its conversation ends it stays as cache, until the room is needed. What is put
aside goes to a ``PrefixCache`` where that is worth it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from edgeserve.errors import EdgeserveError, EngineFailure, InvalidRequest
from engines.llama.cache import WORTH_SAVING, PrefixCache, first_to_leave
from engines.llama.context import BATCH, Context, Item
from engines.llama.keeper import Keeper
from engines.llama.prepare import overflow
from engines.llama.slot import Slot

log = logging.getLogger("edgeserve.llama")

PROMPT_SHARE = 192
"""Prompt tokens taken into a call while others wait for their next token: they wait that much longer."""


class Batch:
    """Slots of a context and what they decode next. ``step`` does one call for all. One thread at a time."""

    def __init__(self, context: Context, slots: int, saved: PrefixCache) -> None:
        self.context = context
        self._slots = [Slot(number) for number in range(slots)]
        self._saved = saved
        self._keeper = Keeper(context, self._slots, saved)
        self._uses = 0
        self.starved = False
        """In the latest step an answer waited for the room of others, none of which had anything to decode."""

    @property
    def busy(self) -> int:
        """Answers under way."""
        return sum(slot.busy for slot in self._slots)

    def take(self, tokens: Sequence[int], salt: str = "") -> tuple[Slot, int]:
        """A slot for a prompt of these tokens, which are then pending but for those that a cache knows; their count.
        Only caches of the same ``salt`` know any.

        One slot must be free. Raises ContextOverflow when they leave no room for an answer.
        """
        if len(tokens) >= self.context.size:
            raise overflow(str(len(tokens)), self.context.size)
        if not tokens:
            raise InvalidRequest("the prompt is empty", param="prompt")
        slot, known = self._place(tokens[:-1], salt)
        self._keeper.clear_copied(slot)
        slot.pending = list(tokens[known:])
        return self._occupied(slot, salt), known

    def take_empty(self) -> Slot:
        """A slot for a prompt with pictures, of which no prefix is known."""
        slot = self._keeper.emptied(self._next_free())
        self._keeper.clear_copied(slot)
        slot.opaque = True
        return self._occupied(slot)

    def give_back(self, slot: Slot) -> None:
        """Its conversation is over; what is in it stays as cache, unless nobody can use it."""
        slot.busy, slot.pending, slot.job = False, [], None
        self.starved = False
        for one in self._slots:
            one.held = False
        if slot.opaque:
            self._keeper.empty(slot)

    def push(self, slot: Slot, *tokens: int) -> None:
        """More to decode."""
        slot.pending += tokens
        slot.output = None

    def step(self) -> None:
        """One call of llama.cpp for all that is pending. Raises EngineFailure, after which all slots are empty."""
        self.starved = False
        for slot in self._slots:
            if slot.job is not None:
                self._do_job(slot)
                if slot.output is not None:
                    return  # the next call of llama.cpp would overwrite these logits: all others wait a step
        try:
            while (shares := self._shares()) and not self.context.decode(_items(shares)):
                self._make_room()
        except EngineFailure:
            for slot in self._slots:
                self._keeper.empty(slot)
            raise
        self.starved = not shares and any(slot.held for slot in self._slots)
        self._decoded(shares)

    def _do_job(self, slot: Slot) -> None:
        """Whatever goes wrong in a job is its own request's error: the others go on."""
        job, slot.job = slot.job, None
        try:
            if job is not None:
                job()
        except EdgeserveError as error:
            slot.refused = error
        except Exception as error:
            log.exception("a job of a request failed")
            slot.refused = InvalidRequest(f"the request cannot be answered: {type(error).__name__}: {error}")

    def idle_work(self) -> Iterator[None]:
        """Make the next requests cheaper, a step at a time."""
        yield from self._keeper.copies()

    def save(self) -> None:
        """Keep all conversations that are worth it."""
        self._keeper.save()

    def make_room(self, cells: int) -> bool:
        """For a picture of so many tokens: idle conversations go. False when those at work leave too few."""
        return self._keeper.make_room(cells)

    # What is decoded next

    def _shares(self) -> list[tuple[Slot, list[int]]]:
        """Tokens of answers first, then of prompts, the longest waiting first."""
        waiting = sorted(
            (slot for slot in self._slots if slot.waiting), key=lambda one: (len(one.pending) > 1, one.used)
        )
        answers = sum(len(slot.pending) == 1 for slot in waiting)
        room = min(BATCH, PROMPT_SHARE + answers) if answers else BATCH
        shares = []
        for slot in waiting:
            shares.append((slot, slot.pending[:room]))
            room -= len(shares[-1][1])
        return [share for share in shares if share[1]]

    def _decoded(self, shares: Sequence[tuple[Slot, list[int]]]) -> None:
        index = -1
        for slot, tokens in shares:
            index += len(tokens)
            slot.tokens += tokens
            del slot.pending[: len(tokens)]
            slot.position += len(tokens)
            slot.cells += len(tokens)
            slot.output = None if slot.pending else index

    def _make_room(self) -> None:
        """Let go of the cache used longest ago; else the youngest conversation starts over once others have ended."""
        if self._keeper.let_go():
            return
        working = [slot for slot in self._slots if slot.busy and not slot.full and not slot.held]
        movable = [slot for slot in working if not slot.opaque]
        if len(working) > 1 and movable:
            youngest = max(movable, key=lambda one: one.used)
            again = [*youngest.tokens, *youngest.pending]
            self._keeper.empty(youngest)
            youngest.pending, youngest.held = again, True
        else:
            max(working, key=lambda one: one.used).full = True

    # Where a prompt goes

    def _place(self, wanted: Sequence[int], salt: str) -> tuple[Slot, int]:
        """The free slot to use, holding the longest prefix known; its length."""
        keeper, saved = self._keeper, self._saved
        source = max(self._slots, key=lambda one: (one.shared(wanted, salt), not one.busy))
        live = source.shared(wanted, salt)
        state, longest = saved.best(wanted, salt)
        saved.note(wanted, max(live, longest), salt)
        # 1. A conversation goes on.
        if live and not source.busy and len(source.tokens) - live < WORTH_SAVING and longest < live + WORTH_SAVING:
            if kept := keeper.cut(source, live):
                return source, kept
            live = 0  # the model cannot take those few tokens back
        # 2. A state that was put aside knows more: it comes back.
        data = saved.fetch(state) if state is not None and longest >= live + WORTH_SAVING else None
        if state is not None and data is not None:
            slot = keeper.emptied(self._next_free(salt))
            if keeper.restored(slot, state, data):
                return slot, keeper.cut(slot, longest)
            live = source.shared(wanted, salt)  # it may have gone to make room
        # 3. It shares its beginning with another, which keeps its own.
        other = self._next_free(salt, but=source if live else None)
        if live >= WORTH_SAVING and other is not source and not saved.whole:
            slot = keeper.emptied(other)
            self.context.copy(source.sequence, slot.sequence, live)
            slot.hold(source.tokens[:live])
            return slot, live
        # 4. It takes an empty place, or that of the one that was used longest ago.
        slot = source if live and not source.busy and other.cells else other
        keeper.discard_copies(slot)
        keeper.put_aside(slot)
        return slot, keeper.cut(slot, slot.shared(wanted, salt))

    def _next_free(self, salt: str = "", but: Slot | None = None) -> Slot:
        """An empty one, where there is one; else of the salt that has the most slots the one used longest ago."""
        free = sorted((slot for slot in self._slots if not slot.busy), key=lambda one: (one.cells > 0, one.used))
        free = [slot for slot in free if slot is not but] or free
        if not free[0].cells:
            return free[0]
        return first_to_leave(free, lambda one: 1, {salt: 1}) or free[0]

    def _occupied(self, slot: Slot, salt: str = "") -> Slot:
        self._uses += 1
        slot.busy, slot.full, slot.output, slot.used = True, False, None, self._uses
        slot.salt = salt
        return slot


def _items(shares: Sequence[tuple[Slot, list[int]]]) -> Iterator[Item]:
    for slot, tokens in shares:
        last = len(slot.pending) - 1
        for offset, token in enumerate(tokens):
            yield Item(token, slot.position + offset, slot.sequence, offset == last)
