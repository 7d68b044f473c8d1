"""The slot of each new prompt: the one where it costs the least."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from edgeserve.engine import Cancel
from edgeserve.engines.llama.cache import WORTH_SAVING, PrefixCache, SavedState
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.slot import Slot
from edgeserve.engines.llama.state_index import next_victim
from edgeserve.engines.llama.swapper import Swapper
from edgeserve.errors import Busy, Cancelled

WORTH_COPYING = 4
"""Tokens of a prefix that a slot takes from another one: the cells are shared, and each token is 2 to 5 ms of reading.

So also new conversations begin behind the words with which the chat template begins all of them.
"""


class Waits(Exception):
    """A job waits for answers under way: the context has no room for it beside them."""


class Seats:
    """Chooses among the slots of a context. One thread at a time; one slot must be free.

    ``kept``: conversations that stay in the context at a time. ``awaited``: answers that wait for a slot.
    """

    def __init__(
        self, context: Context, slots: Sequence[Slot], kept: int, saved: PrefixCache, swapper: Swapper
    ) -> None:
        self._context, self._slots, self._kept, self._saved, self._swapper = context, slots, kept, saved, swapper
        self.awaited = 0
        self._line: list[Slot] = []
        """Texts that wait for a slot, as slots that have none."""

    @property
    def full(self) -> bool:
        return all(slot.busy for slot in self._slots)

    def until_free(self, cancel: Cancel) -> Iterator[None]:
        """Yield for each step to take until a slot is free for an answer. Texts give theirs back one by one.

        Raises Cancelled: for a client that has gone no reader is cut, and no text waits.
        """
        self.awaited += 1
        try:
            while self.full:
                if cancel.is_set():
                    raise Cancelled("the request was cancelled before a slot was free")
                yield None
        finally:
            self.awaited -= 1

    def until_turn(self, cancel: Cancel, salt: str = "") -> Iterator[None]:
        """As ``until_free`` for a text to embed, which lets answers go first, and texts that ``_older`` chooses.

        It takes no slot in which it would wait for other texts to end: an answer that comes meanwhile would be younger.
        """
        place = Slot(len(self._slots))
        place.salt = salt
        self._line.append(place)
        try:
            while not cancel.is_set() and (self.full or self.awaited or self._text_waits(place)):
                yield None
        finally:
            self._line.remove(place)

    def _text_waits(self, place: Slot) -> bool:
        """Whether a text goes first: of the line, or with a slot and no room yet, and only texts are in its way."""
        texts = [slot for slot in self._slots if slot.busy and slot.text and not slot.held]
        waiting = [slot for slot in texts if not slot.whole and slot.wanted <= self._beside_answers]
        return bool(self._older(place, [*waiting, *self._line[: self._line.index(place)]]))

    def _older(self, slot: Slot, older: Sequence[Slot]) -> list[Slot]:
        """The older requests that go first. Others go before a client that reads, or whose answer is in its own way."""
        there = [one for one in self._slots if one.busy and one.opaque and (one.whole or one.cells)]
        clients, reading = {one.client for one in there}, {one.client for one in there if one.whole}
        if slot.client in clients:
            return list(older)
        return [one for one in older if one.client not in (reading if one.lacks <= self._beside_answers else clients)]

    def next_jobs(self) -> list[Slot]:
        """The slots whose job is done in this step: all, but one beside answers, whose tokens wait for each.

        In turns; while an answer waits for a slot, the oldest, which is free the soonest.
        """
        slots = [slot for slot in self._slots if slot.job is not None and not slot.preempted]
        slots.sort(key=lambda one: one.used if self.awaited else one.stepped)
        return slots[:1] if self.awaited or any(slot.waiting for slot in self._slots) else slots

    def make_room(self, slot: Slot, cells: int, now: int = 0) -> None:
        """Evict idle slots, and preempt answers, until there is room for the job of a slot, which needs ``cells``.

        The first call of a slot asks for all of its cells. No other text or picture begins in them. Tokens that answers
        have still to read keep their room. Else an answer that starts over would find the next job in its place, time
        and again. ``gives_way`` chooses among the answers and the job. No answer leaves for a job that waits all the
        same. None leaves before the next ``now`` cells, or all without a number, take its room: short ones end sooner.
        Raises Waits where the job gives way, and Busy where nothing else is under way that could end.
        """
        begins = not slot.whole
        if begins and self._comes_behind(slot):
            raise Waits
        others = (one for one in self._slots if one is not slot and (begins or one.used < slot.used))
        wanted = cells + sum(one.rest for one in others)
        staying, leaving = [one for one in self._slots if one.busy], list[Slot]()
        alone = all(one.preempted or one is slot for one in staying)
        while _taken(staying) + wanted > self._context.size:
            least = gives_way([one for one in staying if one is slot or _may_leave(one)])
            if least is not slot:
                staying.remove(least)
                leaving.append(least)
            elif alone:
                raise self.no_room()
            else:
                slot.wanted = cells
                raise Waits
        self._clear(wanted, now or wanted, staying, leaving)
        slot.wanted = 0
        if begins:
            slot.whole = cells
            self._swapper.look_again()  # those that came behind it

    def _clear(self, wanted: int, now: int, staying: Sequence[Slot], leaving: list[Slot]) -> None:
        """Free ``now`` cells at once. Idle slots give up all that is ``wanted`` beside those that stay."""
        while leaving and _taken((*staying, *leaving)) + now > self._context.size:
            self._swapper.preempt(leaving.pop(0))
        pending, soon = (sum(len(one.pending) for one in slots if one.waiting) for slots in (staying, leaving))
        self._swapper.make_room(pending + max(now + soon, wanted - sum(one.cells for one in leaving)))

    def _comes_behind(self, slot: Slot) -> bool:
        """Whether an older request waits for texts alone: a job that begins would take their room, time and again.

        Texts end soon. Where answers are in the way of the older request, too, nobody waits for it. Where answers about
        pictures are, which cannot leave, no other picture begins, or there would be one in its way at any time.
        """
        older = self._older(slot, [one for one in self._slots if one.used < slot.used and one.lacks])
        pictures = (one for one in self._slots if one.busy and one.opaque and not (one.reads_texts or one.held))
        least = self._context.size if slot.text else self._context.size - _taken(pictures)
        return any(one.lacks <= self._beside_answers or one.lacks > least for one in older)

    @property
    def _beside_answers(self) -> int:
        """Cells beside those of answers: free ones, and those of texts."""
        return self._context.size - _taken(one for one in self._slots if one.busy and not one.reads_texts)

    @property
    def waited(self) -> bool:
        """Whether something waits for room, or for a slot while all are taken."""
        return self._preempted or (self.full and bool(self.awaited or self._line))

    @property
    def _preempted(self) -> bool:
        return any(slot.preempted and not slot.held for slot in self._slots)

    def starved(self) -> bool:
        """Let one go on where nothing has work. True if one waits, and none can go on beside those that pause.

        One that does neither goes on of its own accord, or ends: its next token is being chosen, or it is full.
        """
        if self._preempted and (self._swapper.let_go() or self._resume()):
            return False
        return self.waited and all(slot.held or slot.preempted or slot.behind for slot in self._slots if slot.busy)

    def _resume(self) -> bool:
        """Let the oldest preempted answer go on, if it has room. False without one.

        It left while its reader paused, for one that has come behind it since. So no other has to end before.
        """
        waiting = [slot for slot in self._slots if slot.preempted and slot.job is None and not slot.held]
        oldest = min(waiting, key=_used, default=None)
        busy = [slot for slot in self._slots if slot.busy]
        if oldest is None or _taken(busy) + len(oldest.pending) > self._context.size:
            return False
        oldest.preempted = False
        return True

    def hold_back(self) -> None:
        """Let those that cannot leave wait where their tokens would take what an older one has still to read.

        Else an answer about a picture would end early for it, or each of the two would wait for the other.
        """
        lasting = sorted((slot for slot in self._slots if slot.busy and slot.opaque), key=_used)
        taken, reads = sum(slot.cells for slot in lasting), False
        for slot in lasting:
            slot.behind = reads and taken + len(slot.pending) > self._context.size and bool(slot.pending)
            taken += len(slot.pending) * slot.waiting + slot.rest
            reads |= slot.whole > slot.cells

    def end_youngest(self) -> None:
        """Let the youngest text or prompt with pictures begin anew. Without one, mark the youngest answer as full."""
        taking = [slot for slot in self._slots if slot.busy and (slot.cells or slot.pending)]
        if read := [slot for slot in taking if slot.whole]:
            self._swapper.drop(max(read, key=_used))
        else:
            max((slot for slot in taking if not slot.preempted), key=_used).full = True

    def no_room(self) -> Busy:
        """The error of a request that needs cells which others take."""
        text = f"the context of {self._context.size} tokens is taken by answers under way; try again later"
        return Busy(text, retry_after=5)

    def read_ahead(self, wanted: Sequence[int], salt: str) -> Callable[[], None] | None:
        """Work for another thread, after which ``choose`` need not wait for the disk.

        None where ``choose`` reads nothing, and where no other answer would wait with it.
        """
        state, longest = self._saved.best(wanted, salt) if any(slot.busy for slot in self._slots) else (None, 0)
        live = max(slot.shared(wanted, salt) for slot in self._slots)
        if state is None or isinstance(state, SavedState) or longest < live + WORTH_SAVING:
            return None
        return functools.partial(self._saved.read_ahead, state)

    def choose(self, wanted: Sequence[int], salt: str) -> tuple[Slot, int]:
        """The free slot to use, filled with the longest known prefix of ``wanted``, and the length of that prefix."""
        swapper, saved = self._swapper, self._saved
        source = max(self._slots, key=lambda one: (one.shared(wanted, salt), not one.busy))
        live = source.shared(wanted, salt)
        state, longest = saved.best(wanted, salt)
        saved.note_prompt(wanted, max(live, longest), salt)
        # 1. The prompt shares nearly all tokens of an idle slot, and no saved state knows more: continue there.
        if live and not source.busy and len(source.tokens) - live < WORTH_SAVING and longest < live + WORTH_SAVING:
            if kept := swapper.cut(source, live):
                return source, kept
            live = 0  # the model cannot remove its last tokens
        # 2. A saved state knows more: restore it.
        fits = state is not None and len(state.tokens) <= self._context.size
        data = saved.fetch(state) if state is not None and fits and longest >= live + WORTH_SAVING else None
        if state is not None and data is not None:
            slot = swapper.evict(self.free(salt))
            if swapper.restore(slot, state, data):
                return slot, swapper.cut(slot, longest)
            if not any(
                slot.busy for slot in self._slots
            ):  # the context was empty, so that llama.cpp would refuse the state again
                saved.refuse(state)
            live = source.shared(wanted, salt)  # the source may have been evicted to make room
        # 3. A slot shares a prefix: copy the prefix to another slot, so that both keep their tokens.
        other = self.free(salt, but=source if live else None)
        if live >= WORTH_COPYING and other is not source and not saved.whole:
            slot = swapper.evict(other)
            self._context.copy(source.sequence, slot.sequence, live)
            slot.hold(source.tokens[:live])
            return slot, live
        # 4. Take an empty slot, or the least recently used one.
        slot = source if live and not source.busy and other.cells else other
        swapper.discard_idle_copies(slot)
        swapper.save_slot(slot)
        return slot, swapper.cut(slot, slot.shared(wanted, salt))

    def free(self, salt: str = "", but: Slot | None = None) -> Slot:
        """An empty slot while fewer conversations are kept than may be, and where no slot is idle.

        Else the idle slot that ``next_victim`` chooses.
        """
        idle = sorted((slot for slot in self._slots if slot.idle), key=_used)
        if not idle or sum(slot.busy for slot in self._slots) + len(idle) < self._kept:
            return next(slot for slot in self._slots if not slot.busy and not slot.cells)
        idle = [slot for slot in idle if slot is not but] or idle
        return next_victim(idle, lambda one: 1, {salt: 1}) or idle[0]

    def leave_surplus(self, slot: Slot) -> None:
        """Evict idle slots that are kept beyond those that may be, once ``slot`` has an answer."""
        taken = sum(one.busy or one.cells > 0 or one is slot for one in self._slots)
        while taken > self._kept and self._swapper.evict_idle(but=slot):
            taken -= 1


def _taken(slots: Iterable[Slot]) -> int:
    """Cells of these slots, and those that they need for tokens still to read."""
    return sum(one.cells + len(one.pending) * one.waiting for one in slots)


def _used(slot: Slot) -> int:
    return slot.used


def _may_leave(slot: Slot) -> bool:
    """Whether an answer can start over later."""
    return not (slot.preempted or slot.opaque or (slot.full and not slot.held))


def gives_way(answers: Sequence[Slot]) -> Slot:
    """The answer that waits while the context has no room for all: the youngest, so that the oldest ends some time.

    One that waits for its reader goes first. Where the client with the most cells has several answers, the youngest of
    these: its long ones stop nobody else's.
    """
    answers = [one for one in answers if one.held] or answers
    cells, count = Counter[str](), Counter[str]()
    for slot in answers:
        cells[slot.client] += slot.cells
        count[slot.client] += 1
    greedy = {client for client, taken in cells.items() if taken == max(cells.values()) and count[client] > 1}
    return max([one for one in answers if one.client in greedy] or answers, key=_used)
