"""Conversations at rest: which of them leave the context, where their states are kept, and how they come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from engines.llama.cache import WORTH_SAVING, PrefixCache, SavedState, State, first_to_leave
from engines.llama.context import Context
from engines.llama.slot import Slot


class Keeper:
    """Moves conversations between the slots of a context and the cache beside it. One thread at a time."""

    def __init__(self, context: Context, slots: Sequence[Slot], saved: PrefixCache) -> None:
        self._context = context
        self._slots = slots
        self._saved = saved

    def copies(self) -> Iterator[None]:
        """Copy resting conversations to the cache, the latest last: so they can leave the context as soon as another
        one begins. A step for each."""
        for slot in self._worth_copying():
            if self._saved.admits_copy(slot.tokens, self._context.state_size(slot.sequence), slot.salt):
                self.put_aside(slot)
                yield

    def save(self) -> None:
        """Keep all conversations that are worth it, the latest last, so that it stays longest."""
        for slot in sorted(self._slots, key=lambda one: one.used):
            self.put_aside(slot)

    def make_room(self, cells: int) -> bool:
        """Idle conversations go until so many cells are free. False when those at work leave too few."""
        while (over := sum(slot.cells for slot in self._slots) + cells - self._context.size) > 0:
            if not self.let_go():
                return False
        return over <= 0

    def let_go(self, but: Slot | None = None) -> bool:
        """An idle conversation leaves the context, of the salt that takes the most; False when there is none."""
        idle = sorted((slot for slot in self._slots if slot.idle and slot is not but), key=lambda one: one.used)
        busy = Counter[str]()
        for slot in self._slots:
            busy[slot.salt] += slot.cells if slot.busy else 0
        leaving = first_to_leave(idle, _cells, busy) or first_to_leave(idle, _cells)
        if leaving is not None:
            self.emptied(leaving)
        return leaving is not None

    def restored(self, slot: Slot, state: State, data: bytes | bytearray | memoryview) -> bool:
        """A state comes back to an empty slot; idle conversations go for it, as far as that can make enough room."""
        context, busy = self._context, sum(one.cells for one in self._slots if one.busy)
        back = context.restore(slot.sequence, data)
        if not back and self.clear_copied(slot):
            back = context.restore(slot.sequence, data)
        while not back and busy + len(state.tokens) <= context.size and self.let_go(but=slot):
            back = context.restore(slot.sequence, data)
        if back:
            slot.hold(state.tokens)
        return back

    def clear_copied(self, but: Slot) -> bool:
        """Attention passes over all cells up to the last one taken, whoever's they are: measured, a token takes 36%
        longer beside 2,300 that rest, a prompt 10% (docs/decisions/0005-conversations-at-rest.md). Was there any?"""
        cleared = False
        for slot in self._resting():
            state, known = self._saved.longest(slot.tokens, slot.salt)
            if slot is not but and state is not None and known == len(slot.tokens):
                self._saved.touch(state)
                self.empty(slot)
                cleared = True
        return cleared

    def put_aside(self, slot: Slot) -> None:
        """Keep its state, when it is worth it and not known already."""
        tokens, saved = slot.reusable, self._saved
        if len(tokens) < max(WORTH_SAVING, saved.best(tokens, slot.salt)[1] + 1):
            return
        size = self._context.state_size(slot.sequence)
        if size > saved.largest:
            return
        data = self._context.save(slot.sequence)
        if data is not None:
            saved.put(SavedState(tuple(tokens), data, slot.salt))

    def discard_copies(self, slot: Slot) -> None:
        """Where copies must not cost other states they go first for the state of this one."""
        saved, size = self._saved, self._context.state_size(slot.sequence)
        others = [one for one in self._resting() if one is not slot] if saved.careful else []
        while others and not saved.fits(slot.tokens, size, slot.salt):
            other = others.pop(0)
            saved.discard(other.tokens, other.salt)

    def cut(self, slot: Slot, kept: int) -> int:
        """Take back all after the first ``kept`` tokens; returns how many remain, none when that cannot be done."""
        if not kept or not self._context.cut(slot.sequence, kept):
            self.emptied(slot)
            return 0
        slot.hold(slot.tokens[:kept])
        return kept

    def emptied(self, slot: Slot) -> Slot:
        """Without its conversation, which is kept where that is worth it."""
        self.discard_copies(slot)
        self.put_aside(slot)
        self.empty(slot)
        return slot

    def empty(self, slot: Slot) -> None:
        self._context.clear(slot.sequence)
        slot.forget()

    def _worth_copying(self) -> list[Slot]:
        """The latest of those at rest, as many as the cache can hold at once, the latest last."""
        chosen: list[Slot] = []
        room = self._saved.limit
        for slot in reversed(self._resting()):
            room -= self._context.state_size(slot.sequence)
            if room < 0:
                break
            chosen.insert(0, slot)
        return chosen

    def _resting(self) -> list[Slot]:
        """What rests in the context and is worth moving, the one used longest ago first. Nothing where a state serves
        whole prompts only: in the context the last tokens of a conversation can mostly be taken back."""
        found = (slot for slot in self._slots if not slot.busy and len(slot.reusable) >= WORTH_SAVING)
        return [] if self._saved.whole else sorted(found, key=lambda one: one.used)


def _cells(slot: Slot) -> int:
    return slot.cells
