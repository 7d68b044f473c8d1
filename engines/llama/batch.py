"""Continuous batching: one call of llama.cpp decodes the next token of every answer and a piece of each new prompt.

Orca (OSDI 2022) introduced it; llama.cpp's server does the same. A slot is a sequence of the context. After its answer
the slot keeps its KV cache until another prompt needs the room. Evicted slots worth keeping go to a ``PrefixCache``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from edgeserve.errors import Busy, EdgeserveError, EngineFailure, InvalidRequest
from engines.llama.cache import WORTH_SAVING, PrefixCache, next_victim
from engines.llama.context import BATCH, Context, Item
from engines.llama.prepare import overflow
from engines.llama.slot import Slot
from engines.llama.swapper import Swapper

log = logging.getLogger("edgeserve.llama")

PROMPT_SHARE = 192
"""Prompt tokens in one call while answers are under way. More of them make each token of an answer later."""


class Batch:
    """The slots of a context. ``step`` decodes for all of them in one call. One thread at a time."""

    def __init__(self, context: Context, slots: int, saved: PrefixCache) -> None:
        self.context = context
        self._slots = [Slot(number) for number in range(slots)]
        self._saved = saved
        self._swapper = Swapper(context, self._slots, saved)
        self._uses = 0
        self.starved = False
        """In the latest step a preempted answer waited for room, and no other answer had anything to decode."""

    @property
    def busy(self) -> int:
        """Answers under way."""
        return sum(slot.busy for slot in self._slots)

    def take(self, tokens: Sequence[int], salt: str = "") -> tuple[Slot, int]:
        """The slot for a prompt, and the number of its tokens that came from a cache of the same ``salt``.

        The other tokens are pending. One slot must be free. Raises ContextOverflow when the prompt leaves no room for
        an answer, InvalidRequest when it is empty.
        """
        if len(tokens) >= self.context.size:
            raise overflow(str(len(tokens)), self.context.size)
        if not tokens:
            raise InvalidRequest("the prompt is empty", param="prompt")
        slot, known = self._choose_slot(tokens[:-1], salt)
        self._swapper.clear_saved(slot)
        slot.pending = list(tokens[known:])
        return self._occupy(slot, salt), known

    def take_empty(self) -> Slot:
        """An empty slot for a prompt with pictures, or for texts to embed: no cache knows their prefixes."""
        slot = self._swapper.evict(self._free_slot())
        self._swapper.clear_saved(slot)
        slot.opaque = True
        return self._occupy(slot)

    def give_back(self, slot: Slot) -> None:
        """Free the slot after its answer. Its KV cache stays, unless the slot is opaque."""
        slot.busy, slot.pending, slot.job = False, [], None
        self.starved = False
        for one in self._slots:
            one.preempted = False
        if slot.opaque:
            self._swapper.empty(slot)

    def push(self, slot: Slot, *tokens: int) -> None:
        """Add tokens to decode."""
        slot.pending += tokens
        slot.output = None

    def step(self) -> None:
        """Decode pending tokens in one call of llama.cpp. Raises EngineFailure; all slots are empty then."""
        self.starved = False
        for slot in self._slots:
            if slot.job is not None:
                self._do_job(slot)
                if slot.output is not None:
                    return  # this step's call would overwrite the logits of the job: all other slots wait for the next
        try:
            while (shares := self._schedule()) and not self.context.decode(_items(shares)):
                self._evict_or_preempt()
        except EngineFailure:
            for slot in self._slots:
                self._swapper.empty(slot)
            raise
        self.starved = not shares and any(slot.preempted for slot in self._slots)
        self._advance(shares)

    def _do_job(self, slot: Slot) -> None:
        """Run the job of a slot. An error in it fails its own request only; the other answers go on."""
        job, slot.job = slot.job, None
        try:
            if job is not None:
                job()
        except EdgeserveError as error:
            slot.error = error
        except Exception as error:
            log.exception("a job of a request failed")
            slot.error = InvalidRequest(f"the request cannot be answered: {type(error).__name__}: {error}")

    def idle_work(self) -> Iterator[None]:
        """Copy idle slots to the prefix cache, so that later requests are cheaper. One copy a step."""
        yield from self._swapper.copy_idle()

    def save(self) -> None:
        """Save every slot worth saving to the prefix cache."""
        self._swapper.save()

    def make_room(self, cells: int) -> None:
        """Evict idle slots until ``cells`` are free. Raises Busy when the answers under way leave too few."""
        if not self._swapper.make_room(cells):
            raise self.no_room()

    def no_room(self) -> Busy:
        """The error of a request that needs cells which answers under way take."""
        text = f"the context of {self.context.size} tokens is taken by answers under way; try again later"
        return Busy(text, retry_after=5)

    # The next call of llama.cpp

    def _schedule(self) -> list[tuple[Slot, list[int]]]:
        """The tokens of each slot in the next call: answers first, then prompts, the oldest request first."""
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

    def _advance(self, shares: Sequence[tuple[Slot, list[int]]]) -> None:
        """Note the decoded tokens in their slots."""
        index = -1
        for slot, tokens in shares:
            index += len(tokens)
            slot.tokens += tokens
            del slot.pending[: len(tokens)]
            slot.position += len(tokens)
            slot.cells += len(tokens)
            slot.output = None if slot.pending else index

    def _evict_or_preempt(self) -> None:
        """Make room for the next call, by the first of these that is possible:

        1. Evict an idle slot.
        2. Let the youngest answer wait for one that is full: it ends, and then its cells are free.
        3. Preempt the youngest answer: it starts over when another has ended. An answer alone is never preempted.
        4. Mark the youngest answer as full, so that it ends.
        """
        if self._swapper.evict_idle():
            return
        working = [slot for slot in self._slots if slot.busy and not slot.full and not slot.preempted]
        movable = [slot for slot in working if not slot.opaque]
        if any(slot.busy and slot.full for slot in self._slots):
            max(working, key=lambda one: one.used).preempted = True
        elif len(working) > 1 and movable:
            youngest = max(movable, key=lambda one: one.used)
            again = [*youngest.tokens, *youngest.pending]
            self._swapper.empty(youngest)
            youngest.pending, youngest.preempted = again, True
        else:
            max(working, key=lambda one: one.used).full = True

    # The slot of a prompt

    def _choose_slot(self, wanted: Sequence[int], salt: str) -> tuple[Slot, int]:
        """The free slot to use, filled with the longest known prefix of ``wanted``, and the length of that prefix."""
        swapper, saved = self._swapper, self._saved
        source = max(self._slots, key=lambda one: (one.shared(wanted, salt), not one.busy))
        live = source.shared(wanted, salt)
        state, longest = saved.best(wanted, salt)
        saved.note_prompt(wanted, max(live, longest), salt)
        # 1. The prompt shares nearly all tokens of an idle slot, and no saved state knows more: go on there.
        if live and not source.busy and len(source.tokens) - live < WORTH_SAVING and longest < live + WORTH_SAVING:
            if kept := swapper.cut(source, live):
                return source, kept
            live = 0  # the model cannot remove its last tokens
        # 2. A saved state knows more: restore it.
        data = saved.fetch(state) if state is not None and longest >= live + WORTH_SAVING else None
        if state is not None and data is not None:
            slot = swapper.evict(self._free_slot(salt))
            if swapper.restore(slot, state, data):
                return slot, swapper.cut(slot, longest)
            live = source.shared(wanted, salt)  # the source may have been evicted to make room
        # 3. A slot shares a long prefix: copy the prefix to another slot, so that both keep their tokens.
        other = self._free_slot(salt, but=source if live else None)
        if live >= WORTH_SAVING and other is not source and not saved.whole:
            slot = swapper.evict(other)
            self.context.copy(source.sequence, slot.sequence, live)
            slot.hold(source.tokens[:live])
            return slot, live
        # 4. Take an empty slot, or the least recently used one.
        slot = source if live and not source.busy and other.cells else other
        swapper.discard_idle_copies(slot)
        swapper.save_slot(slot)
        return slot, swapper.cut(slot, slot.shared(wanted, salt))

    def _free_slot(self, salt: str = "", but: Slot | None = None) -> Slot:
        """An empty slot; without one, the least recently used free slot of the salt that has the most."""
        free = sorted((slot for slot in self._slots if not slot.busy), key=lambda one: (one.cells > 0, one.used))
        free = [slot for slot in free if slot is not but] or free
        if not free[0].cells:
            return free[0]
        return next_victim(free, lambda one: 1, {salt: 1}) or free[0]

    def _occupy(self, slot: Slot, salt: str = "") -> Slot:
        """Mark the slot as busy with a new answer."""
        self._uses += 1
        slot.busy, slot.full, slot.output, slot.used = True, False, None, self._uses
        slot.salt = salt
        return slot


def _items(shares: Sequence[tuple[Slot, list[int]]]) -> Iterator[Item]:
    for slot, tokens in shares:
        last = len(slot.pending) - 1
        for offset, token in enumerate(tokens):
            yield Item(token, slot.position + offset, slot.sequence, offset == last)
