"""Continuous batching: the conversations under way are decoded together, one token each, in calls that also take in a
piece of each new prompt (Orca, OSDI 2022; llama.cpp's server does the same).

A slot is a sequence of the context. When its conversation ends it stays as cache, until the room is needed. What is put
aside goes to a ``PrefixCache`` where that is worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from edgeserve.errors import ContextOverflow, EdgeserveError, EngineFailure
from engines.llama_cache import WORTH_SAVING, PrefixCache, SavedState, shared
from engines.llama_context import BATCH, Context, Item

PROMPT_SHARE = 192
"""Prompt tokens taken into a call while others wait for their next token: they wait that much longer."""


class Slot:
    """One sequence. ``tokens`` are in the cache, at the positions from 0; ``pending`` are still to be decoded.

    ``output``: where the logits after the last decoded token lie, None while tokens are pending. ``position``: the next
    one; ``cells``: what is taken of the context. The two differ from the tokens when a picture is among them; then the
    slot is ``opaque``, with no prefix to share. ``job``: what the next step does for it first, such as decoding a
    picture; ``refused``: why that failed. ``full``: the context has no room for more of it. ``held``: it
    starts over when another conversation has ended.
    """

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.busy = False
        self.used = 0
        self.forget()

    def forget(self) -> None:
        self.tokens: list[int] = []
        self.pending: list[int] = []
        self.output: int | None = None
        self.position = self.cells = 0
        self.job: Callable[[], None] | None = None
        self.refused: EdgeserveError | None = None
        self.opaque = self.full = self.held = False

    @property
    def reusable(self) -> Sequence[int]:
        return () if self.opaque else self.tokens

    @property
    def waiting(self) -> bool:
        return bool(self.pending) and not self.full and not self.held


class Batch:
    """Slots of a context and what they decode next. ``step`` does one call for all. One thread at a time."""

    def __init__(self, context: Context, slots: int, saved: PrefixCache) -> None:
        self.context = context
        self._slots = [Slot(number) for number in range(slots)]
        self._saved = saved
        self._uses = 0

    def take(self, tokens: Sequence[int]) -> tuple[Slot, int]:
        """A slot for a prompt of these tokens, which are then pending but for those that a cache knows; their count.

        One slot must be free. Raises ContextOverflow when they leave no room for an answer.
        """
        if len(tokens) >= self.context.size:
            raise ContextOverflow(
                f"the prompt is {len(tokens)} tokens long; the context holds {self.context.size} and needs one for the "
                "answer: shorten the prompt, or raise context in models.toml",
                param="messages",
            )
        slot, known = self._place(tokens[:-1])
        self._clear_copied(slot)
        slot.pending = list(tokens[known:])
        return self._occupied(slot), known

    def take_empty(self) -> Slot:
        """A slot for a prompt with pictures, of which no prefix is known."""
        slot = self._emptied(self._oldest_free())
        self._clear_copied(slot)
        slot.opaque = True
        return self._occupied(slot)

    def give_back(self, slot: Slot) -> None:
        """Its conversation is over; what is in it stays as cache, unless nobody can use it."""
        slot.busy, slot.pending, slot.job = False, [], None
        for one in self._slots:
            one.held = False
        if slot.opaque:
            self._empty(slot)

    def push(self, slot: Slot, *tokens: int) -> None:
        """More to decode."""
        slot.pending += tokens
        slot.output = None

    def step(self) -> None:
        """One call of llama.cpp for all that is pending. Raises EngineFailure, after which all slots are empty."""
        for slot in self._slots:
            job, slot.job = slot.job, None
            if job is not None:
                job()
                if slot.output is not None:
                    return  # the next call of llama.cpp would overwrite these logits: all others wait a step
        try:
            while (shares := self._shares()) and not self.context.decode(_items(shares)):
                self._make_room()
        except EngineFailure:
            for slot in self._slots:
                self._empty(slot)
            raise
        self._decoded(shares)

    def rest(self) -> Iterator[None]:
        """Copy resting conversations to the cache, the latest last: so they can leave the context as soon as another
        one begins. A step for each."""
        for slot in self._worth_copying():
            if self._saved.admits_copy(slot.tokens, self.context.state_size(slot.sequence)):
                self._put_aside(slot)
                yield

    def _worth_copying(self) -> list[Slot]:
        """The latest of those at rest, as many as the cache can hold at once, the latest last."""
        chosen: list[Slot] = []
        room = self._saved.limit
        for slot in reversed(self._resting()):
            room -= self.context.state_size(slot.sequence)
            if room < 0:
                break
            chosen.insert(0, slot)
        return chosen

    def save(self) -> None:
        """Keep all conversations that are worth it, the latest last, so that it stays longest."""
        for slot in sorted(self._slots, key=lambda one: one.used):
            self._put_aside(slot)

    def make_room(self, cells: int) -> bool:
        """For a picture of so many tokens: idle conversations go. False when those at work leave too few."""
        while (over := sum(slot.cells for slot in self._slots) + cells - self.context.size) > 0:
            idle = [slot for slot in self._slots if not slot.busy and slot.cells]
            if not idle:
                return False
            self._emptied(min(idle, key=lambda one: one.used))
        return over <= 0

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
        idle = [slot for slot in self._slots if not slot.busy and slot.cells]
        if idle:
            self._emptied(min(idle, key=lambda one: one.used))
            return
        working = [slot for slot in self._slots if slot.busy and not slot.full and not slot.held]
        movable = [slot for slot in working if not slot.opaque]
        if len(working) > 1 and movable:
            youngest = max(movable, key=lambda one: one.used)
            again = [*youngest.tokens, *youngest.pending]
            self._empty(youngest)
            youngest.pending, youngest.held = again, True
        else:
            max(working, key=lambda one: one.used).full = True

    # Where a prompt goes

    def _place(self, wanted: Sequence[int]) -> tuple[Slot, int]:
        """The free slot to use, holding the longest prefix known; its length."""
        source = max(self._slots, key=lambda one: (shared(one.reusable, wanted), not one.busy))
        live = shared(source.reusable, wanted)
        state, longest = self._saved.best(wanted)
        self._saved.note(wanted, max(live, longest))
        # 1. A conversation goes on.
        if live and not source.busy and len(source.tokens) - live < WORTH_SAVING and longest < live + WORTH_SAVING:
            if kept := self._cut(source, live):
                return source, kept
            live = 0  # the model cannot take those few tokens back
        # 2. A state that was put aside knows more: it comes back.
        data = self._saved.fetch(state) if state is not None and longest >= live + WORTH_SAVING else None
        if state is not None and data is not None:
            slot = self._emptied(self._oldest_free())
            back = self.context.restore(slot.sequence, data)
            if not back and self._clear_copied(slot):  # there was no room
                live, back = shared(source.reusable, wanted), self.context.restore(slot.sequence, data)
            if back:
                slot.tokens, slot.position, slot.cells = list(state.tokens), len(state.tokens), len(state.tokens)
                return slot, self._cut(slot, longest)
        # 3. It shares its beginning with another, which keeps its own.
        other = self._oldest_free(source if live else None)
        if live >= WORTH_SAVING and other is not source and not self._saved.whole:
            slot = self._emptied(other)
            self.context.copy(source.sequence, slot.sequence, live)
            slot.tokens, slot.position, slot.cells = list(source.tokens[:live]), live, live
            return slot, live
        # 4. It takes an empty place, or that of the one that was used longest ago.
        slot = source if live and not source.busy and other.cells else other
        self._discard_copies(slot)
        self._put_aside(slot)
        return slot, self._cut(slot, shared(slot.reusable, wanted))

    def _clear_copied(self, but: Slot) -> bool:
        """Attention passes over all cells up to the last one taken, whoever's they are: measured, a token takes 36%
        longer beside 2,300 that rest, a prompt 10% (docs/decisions/0005-conversations-at-rest.md). Was there any?"""
        cleared = False
        for slot in self._resting():
            state, known = self._saved.longest(slot.tokens)
            if slot is not but and state is not None and known == len(slot.tokens):
                self._saved.touch(state)
                self._empty(slot)
                cleared = True
        return cleared

    def _resting(self) -> list[Slot]:
        """What rests in the context and is worth moving, the one used longest ago first. Nothing where a state serves
        whole prompts only: in the context the last tokens of a conversation can mostly be taken back."""
        found = (slot for slot in self._slots if not slot.busy and len(slot.reusable) >= WORTH_SAVING)
        return [] if self._saved.whole else sorted(found, key=lambda one: one.used)

    def _oldest_free(self, but: Slot | None = None) -> Slot:
        """An empty one, where there is one."""
        free = [slot for slot in self._slots if not slot.busy]
        return min([slot for slot in free if slot is not but] or free, key=lambda one: (one.cells > 0, one.used))

    def _occupied(self, slot: Slot) -> Slot:
        self._uses += 1
        slot.busy, slot.full, slot.output, slot.used = True, False, None, self._uses
        return slot

    def _cut(self, slot: Slot, kept: int) -> int:
        """Take back all after the first ``kept`` tokens; returns how many remain, none when that cannot be done."""
        if not kept or not self.context.cut(slot.sequence, kept):
            self._emptied(slot)
            return 0
        slot.tokens, slot.position, slot.cells = slot.tokens[:kept], kept, kept
        return kept

    def _put_aside(self, slot: Slot) -> None:
        """Keep its state, when it is worth it and not known already."""
        tokens, saved = slot.reusable, self._saved
        if len(tokens) < max(WORTH_SAVING, saved.best(tokens)[1] + 1):
            return
        size = self.context.state_size(slot.sequence)
        if size > saved.largest:
            return
        data = self.context.save(slot.sequence)
        if data is not None:
            saved.put(SavedState(tuple(tokens), data))

    def _discard_copies(self, slot: Slot) -> None:
        """Where copies must not cost other states they go first for the state of this one."""
        saved, size = self._saved, self.context.state_size(slot.sequence)
        others = [one for one in self._resting() if one is not slot] if saved.careful else []
        while others and not saved.fits(slot.tokens, size):
            saved.discard(others.pop(0).tokens)

    def _emptied(self, slot: Slot) -> Slot:
        self._discard_copies(slot)
        self._put_aside(slot)
        self._empty(slot)
        return slot

    def _empty(self, slot: Slot) -> None:
        self.context.clear(slot.sequence)
        slot.forget()


def _items(shares: Sequence[tuple[Slot, list[int]]]) -> Iterator[Item]:
    for slot, tokens in shares:
        last = len(slot.pending) - 1
        for offset, token in enumerate(tokens):
            yield Item(token, slot.position + offset, slot.sequence, offset == last)
