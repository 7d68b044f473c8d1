"""Swaps idle slots: it copies their states to the prefix cache, evicts them from the context and restores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from edgeserve.engines.llama.cache import WORTH_SAVING, PrefixCache, SavedState
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.slot import Slot
from edgeserve.engines.llama.state_index import State, next_victim
from edgeserve.errors import SlowReader

LONG = 128
"""Tokens to read of a prompt that is worth copies before it: idle cells make each of its tokens slower."""
BESIDE = 2
"""So many tokens of idle conversations at most are copied for each token to read. A copy takes a thirtieth of the time
that reading takes."""
UNREAD = 1.0
"""Seconds for which the cells of an answer about a picture wait for its reader, where others wait for room."""


class Swapper:
    """Moves KV caches between the slots of a context and the prefix cache. One thread at a time.

    ``copying``: a slot is being saved or restored by hand.
    """

    def __init__(self, context: Context, slots: Sequence[Slot], saved: PrefixCache) -> None:
        self._context = context
        self._slots = slots
        self._saved = saved
        self.copying = False

    def copy_idle(self) -> Iterator[None]:
        """Copy idle slots to the prefix cache, the latest last. Later, these slots can be cleared at once.

        Then what the next copy pushes out of memory is written to disk. Yields after each copy and state.
        """
        for slot in self._worth_copying():
            if self._copy(slot) or self._write(slot):
                yield
        yield from self._saved.write_ahead()

    def copy_before(self, slot: Slot) -> None:
        """Copy idle slots before a long prompt is read in ``slot``, as far as that takes little time.

        Requests that leave no pause between them leave no time for ``copy_idle``.
        """
        left = BESIDE * len(slot.pending) if len(slot.pending) >= LONG else 0
        for other in self._idle_slots():
            if other is not slot and len(other.tokens) <= left and self._copy(other):
                left -= len(other.tokens)

    def save(self) -> None:
        """Save every slot worth saving, the latest last, so that it stays longest. Blocks for the disk."""
        with self._saved.settled():
            for slot in sorted(self._slots, key=lambda one: one.used):
                self.save_slot(slot)

    def make_room(self, cells: int) -> bool:
        """Evict idle slots until ``cells`` are free. False when the busy slots leave too few."""
        while sum(slot.cells for slot in self._slots) + cells > self._context.size:
            if not self.evict_idle():
                return False
        return True

    def evict_idle(self, but: Slot | None = None) -> bool:
        """Evict the idle slot that ``next_victim`` chooses by cells. False without an idle slot."""
        idle = sorted((slot for slot in self._slots if slot.idle and slot is not but), key=lambda one: one.used)
        busy = Counter[str]()
        for slot in self._slots:
            busy[slot.salt] += slot.cells if slot.busy else 0
        leaving = next_victim(idle, _cells, busy) or next_victim(idle, _cells)
        if leaving is not None:
            self.evict(leaving)
        return leaving is not None

    def restore(self, slot: Slot, state: State, data: bytes | bytearray | memoryview) -> bool:
        """Restore a state in an empty slot, and evict idle slots for it as long as that can help. False on failure."""
        context, busy = self._context, sum(one.cells for one in self._slots if one.busy)
        back = context.restore(slot.sequence, data)
        if not back and self.clear_saved(slot):
            back = context.restore(slot.sequence, data)
        while not back and busy + len(state.tokens) <= context.size and self.evict_idle(but=slot):
            back = context.restore(slot.sequence, data)
        if back:
            slot.hold(state.tokens)
        return back

    def clear_saved(self, but: Slot) -> bool:
        """Clear the idle slots other than ``but`` whose whole state is saved. False when there is none.

        Attention reads every cell up to the last one taken, those of idle slots too, which makes each token slower
        (docs/decisions/0005-conversations-at-rest.md).
        """
        cleared = False
        for slot in self._idle_slots():
            state = self._copy_of(slot) if slot is not but else None
            if state is not None and self._saved.use(state):
                self.empty(slot)
                cleared = True
        return cleared

    def _copy(self, slot: Slot) -> bool:
        """Copy a slot without a copy, if the cache takes one."""
        size = self._context.state_size(slot.sequence)
        wanted = self._copy_of(slot) is None and self._saved.admits_copy(slot.tokens, size, slot.salt)
        if wanted:
            self.save_slot(slot)
        return wanted

    def _write(self, slot: Slot) -> bool:
        """Have a slot without a copy written to disk, if memory can never hold one."""
        wanted = self._saved.admits_write(self._context.state_size(slot.sequence)) and self._copy_of(slot) is None
        if wanted:
            self.save_slot(slot)
        return wanted

    def _copy_of(self, slot: Slot) -> State | None:
        """The state, in memory or on disk, of all tokens of a slot."""
        state, known = self._saved.best(slot.tokens, slot.salt)
        return state if known == len(slot.tokens) else None

    def save_slot(self, slot: Slot) -> None:
        """Save the state of a slot, if it is worth saving and the cache lacks it."""
        tokens, saved = slot.reusable, self._saved
        if len(tokens) < max(WORTH_SAVING, saved.best(tokens, slot.salt)[1] + 1):
            return
        size = self._context.state_size(slot.sequence)
        if size > saved.largest:
            return
        data = self._context.save(slot.sequence)
        if data is not None:
            saved.put(SavedState(tuple(tokens), data, slot.salt))

    def discard_idle_copies(self, slot: Slot) -> None:
        """While copies must not evict states, drop copies of other idle slots in favour of this slot's state."""
        saved, size = self._saved, self._context.state_size(slot.sequence)
        others = [one for one in self._idle_slots() if one is not slot] if saved.copy_pause else []
        while others and not saved.fits(slot.tokens, size, slot.salt):
            other = others.pop(0)
            saved.discard(other.tokens, other.salt)

    def cut(self, slot: Slot, kept: int) -> int:
        """Remove all tokens after the first ``kept``; returns how many remain.

        When the model cannot remove them, or ``kept`` is 0, the slot is evicted and 0 returned.
        """
        if not kept or not self._context.cut(slot.sequence, kept):
            self.evict(slot)
            return 0
        slot.hold(slot.tokens[:kept])
        return kept

    def evict(self, slot: Slot) -> Slot:
        """Save the slot if it is worth saving, then clear it; returns the slot."""
        self.discard_idle_copies(slot)
        self.save_slot(slot)
        self.empty(slot)
        return slot

    def preempt(self, slot: Slot) -> None:
        """Clear the slot of an answer, which starts over when another has ended. Jobs that wait look again."""
        again = [*slot.tokens, *slot.pending]
        self.empty(slot)
        self.look_again()
        slot.pending, slot.preempted = again, True

    def let_go(self) -> bool:
        """Preempt the longest answer that waits for its reader, so that the others go on. False without one."""
        paused = [slot for slot in self._slots if slot.held and slot.cells and not slot.opaque]
        if paused:
            for one in self._slots:
                one.preempted = False
            self.preempt(max(paused, key=_cells))
        return bool(paused)

    def end_unread(self, now: float) -> None:
        """End the answer about pictures whose reader has paused longest, for ``UNREAD``, where others wait for room.

        It cannot start over, and short ones of others would go on beside it for ever. ``now`` in seconds.
        """
        paused: list[tuple[float, Slot]] = []
        for slot in self._slots:
            unread = slot.held and slot.opaque and slot.cells
            slot.paused = (now if slot.paused is None else slot.paused) if unread else None
            if slot.paused is not None:
                paused.append((slot.paused, slot))
        since, longest = min(paused, key=lambda one: one[0], default=(now, None))
        if longest is None or now - since < UNREAD or not any(one.preempted and not one.held for one in self._slots):
            return
        self.empty(longest)
        text = f"the answer waited {UNREAD:g} s for its reader while others waited for its room: read faster"
        longest.opaque, longest.error = True, SlowReader(text)
        for one in self._slots:
            one.preempted = False

    def drop(self, slot: Slot) -> None:
        """Clear the slot of a text to embed or a prompt with pictures: it begins anew where it has room again.

        Until then it lacks all of its cells. Jobs that wait look again.
        """
        text, job, whole = slot.text, slot.job, slot.whole
        self.empty(slot)
        slot.opaque, slot.text, slot.job, slot.wanted = True, text, job if text else None, whole
        self.look_again()

    def look_again(self) -> None:
        """Let jobs that wait look for room again."""
        for one in self._slots:
            one.preempted = one.preempted and one.job is None

    def empty(self, slot: Slot) -> None:
        """Clear a slot without saving it."""
        self._context.clear(slot.sequence)
        slot.forget()

    def _worth_copying(self) -> list[Slot]:
        """The latest idle slots, as many as copies may take room for, the latest last."""
        chosen: list[Slot] = []
        room = self._saved.room_for_copies
        for slot in reversed(self._idle_slots()):
            room -= self._context.state_size(slot.sequence)
            if room < 0:
                break
            chosen.insert(0, slot)
        return chosen

    def _idle_slots(self) -> list[Slot]:
        """Idle slots worth moving to the cache, the least recently used first.

        None of them when a saved state serves whole prompts only. In the context the model can mostly remove the last
        tokens of a conversation, so the slot serves more prompts there.
        """
        found = (slot for slot in self._slots if not slot.busy and len(slot.reusable) >= WORTH_SAVING)
        return [] if self._saved.whole else sorted(found, key=lambda one: one.used)


def _cells(slot: Slot) -> int:
    return slot.cells
