"""Continuous batching: one call of llama.cpp decodes the next token of every answer and a piece of each new prompt.

Orca (OSDI 2022) introduced it; llama.cpp's server does the same. A slot is a sequence of the context. After its answer
the slot keeps its KV cache until another prompt needs the room. Evicted slots worth keeping go to a ``PrefixCache``.

llama.cpp applies one set of adapters to a whole call. So answers with the same set share a call, and sets take turns of
a few calls (docs/decisions/0021-adapters.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgeserve.engines.llama.adapter_turns import AdapterTurns
from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.drafting import Drafting
from edgeserve.engines.llama.drafts import Drafts, Guess
from edgeserve.engines.llama.numbers import Numbers
from edgeserve.engines.llama.pieces import SHORT, Pieces
from edgeserve.engines.llama.prepare import overflow
from edgeserve.engines.llama.seats import Seats, Waits, gives_way
from edgeserve.engines.llama.slot import Share, Slot
from edgeserve.engines.llama.spoilt import Spoilt
from edgeserve.engines.llama.swapper import Swapper
from edgeserve.engines.llama.tokenizer import TooLong
from edgeserve.errors import EdgeserveError, EngineFailure, InvalidRequest

if TYPE_CHECKING:
    from edgeserve.engines.llama.draft_model import DraftModel

log = logging.getLogger("edgeserve.llama")


class Batch:
    """The slots of a context. ``step`` decodes for all of them in one call. One thread at a time."""

    def __init__(
        self,
        context: Context,
        slots: int,
        saved: PrefixCache,
        drafts: Drafts | None = None,
        draft_model: DraftModel | None = None,
        beside: int = 0,
    ) -> None:
        """``beside``: answers beyond the slots that may be under way as well."""
        self.context = context
        self.drafts = drafts or Drafts(0)
        self.draft_model = draft_model
        self.pieces = Pieces(context.batch)
        self._slots = [Slot(number) for number in range(slots + beside)]
        self.numbers = Numbers(self._slots, slots)
        self.saved = saved
        self._drafting = Drafting(context, self._slots, self.drafts, draft_model)
        self.swapper = Swapper(context, self._slots, saved)
        self.spoilt = Spoilt(context, self._slots, self.swapper)
        self.seats = Seats(context, self._slots, slots, saved, self.swapper)
        self._turns = AdapterTurns()
        self._uses = self._calls = self._read = 0
        """Counts of answers and calls; number of the latest call that read a prompt."""
        self._starved = False

    @property
    def starved(self) -> bool:
        """Whether something waits for room or for a slot that only a paused answer could give back."""
        return self._starved and self.seats.waited

    @property
    def slots(self) -> Sequence[Slot]:
        return self._slots

    def occupy(self, slot: Slot, salt: str, adapters: Active) -> None:
        """Note that a free slot was just used under this salt, with these adapters."""
        self._occupy(slot, salt, adapters)
        self.give_back(slot)

    @property
    def busy(self) -> int:
        """Answers under way."""
        return sum(slot.busy for slot in self._slots)

    def take(self, tokens: Sequence[int], salt: str = "", adapters: Active = ()) -> tuple[Slot, int]:
        """The slot for a prompt, and the number of its tokens that came from a cache of the scope of ``salt``.

        The other tokens are pending. Prompts of other ``adapters`` have another scope. One slot must be free. Raises
        ContextOverflow when the prompt leaves no room for an answer, InvalidRequest when it is empty.
        """
        if len(tokens) >= self.context.size:
            raise overflow(TooLong(len(tokens), exact=True), self.context.size)
        if not tokens:
            raise InvalidRequest("the prompt is empty", param="prompt")
        began = self.drafts.clock()
        slot, known = self.seats.choose(tokens[:-1], salt)
        self.seats.leave_surplus(slot)
        slot.pending = list(tokens[known:])
        self.swapper.copy_before(slot)
        self.swapper.clear_saved(slot)
        self.pieces.delay((one for one in self._slots if one is not slot), self.drafts.clock() - began)
        return self._occupy(slot, salt, adapters), known

    def take_empty(self, adapters: Active = (), salt: str = "") -> Slot:
        """An empty slot for a prompt with pictures, or for texts to embed: no cache knows their prefixes."""
        slot = self.swapper.evict(self.seats.free(salt))
        self.seats.leave_surplus(slot)
        self.swapper.clear_saved(slot)
        slot.opaque = True
        return self._occupy(slot, salt, adapters)

    def give_back(self, slot: Slot) -> None:
        """Free the slot after its answer. Its KV cache stays, unless the slot is opaque."""
        try:
            self.settle(slot, ())
        finally:
            slot.busy, slot.held, slot.pending, slot.job, slot.guess = False, False, [], None, None
            self._starved = False
            for one in self._slots:
                one.preempted = one.full = False  # there may be room now
            if slot.opaque:
                self.swapper.empty(slot)
            if not self.busy:
                self.context.pause_threads()

    def push(self, slot: Slot, *tokens: int, guess: Guess | None = None) -> None:
        """Add tokens to decode. ``guess``: those that may follow."""
        slot.pending += tokens
        slot.guess = None if slot.opaque or self.numbers.of(slot) < 0 else guess
        slot.output = None

    def settle(self, slot: Slot, kept: Sequence[int]) -> None:
        """Keep the first tokens of the slot's draft, which ``kept`` are, and remove the others from the KV cache.

        A slot that was preempted meanwhile has no draft any more: it decodes them anew. Raises EngineFailure when
        llama.cpp cannot remove tokens.
        """
        draft, slot.draft = slot.draft, []
        if not draft:
            slot.pending += kept
            return
        slot.tokens += kept
        slot.position += len(kept)
        slot.cells -= len(draft) - len(kept)
        slot.accepted += len(kept)
        if len(kept) < len(draft) and not self.context.cut(slot.sequence, slot.position):
            self.swapper.empty(slot)
            raise EngineFailure('llama.cpp cannot remove refused drafts of this model; set speculation = "off"')

    def step(self) -> None:
        """Decode pending tokens in one call of llama.cpp. Raises EngineFailure; all slots are empty then."""
        self._starved = False
        self.saved.fit()
        self.swapper.end_unread(self.drafts.clock())
        self.seats.hold_back()
        jobs = self.seats.next_jobs()
        if self._do_jobs(jobs):
            return  # this step's call would overwrite the logits of the job: all other slots wait for the next
        try:
            while (shares := self._schedule()) and not self._decode(shares):
                if not self.swapper.evict_idle():
                    self._make_do(shares)
        except EngineFailure:
            for slot in self._slots:
                self.swapper.empty(slot)
            raise
        self._starved = not (shares or jobs or self.seats.next_jobs()) and self.seats.starved()
        self._advance(shares)
        self.spoilt.look(shares)

    def _do_jobs(self, jobs: Sequence[Slot]) -> bool:
        """Run the jobs of this step, none in the answers' own time. True as soon as one has left logits."""
        if not jobs or self.pieces.owes(self._slots):
            return False
        began = self.drafts.clock()
        for slot in jobs:
            self._do_job(slot)
            if slot.output is not None:
                break
        self.pieces.delay(self._slots, self.drafts.clock() - began)
        return slot.output is not None

    def _do_job(self, slot: Slot) -> None:
        """Run the job of a slot. An error in it fails its own request only. One that waits for room is tried again."""
        (job, slot.job), slot.stepped = (slot.job, None), self._calls + 1
        try:
            if job is not None:
                self.context.use(slot.adapters)
                job()
        except Waits:
            slot.job, slot.preempted = job, True
        except EdgeserveError as error:
            slot.error = error
        except Exception as error:
            log.exception("a job of a request failed")
            slot.error = InvalidRequest(f"the request cannot be answered: {type(error).__name__}: {error}")

    def idle_work(self) -> Iterator[None]:
        """Copy idle slots to the prefix cache, so that later requests are cheaper. One copy a step."""
        yield from self.swapper.copy_idle()

    def save(self) -> None:
        """Save every slot worth saving to the prefix cache."""
        self.swapper.save()

    # The next call of llama.cpp

    def _decode(self, shares: Sequence[Share]) -> bool:
        """Decode in one call. False when the context has no room."""
        self.context.use(shares[0].slot.adapters)
        began = self.drafts.clock()
        if not self.context.decode(self.spoilt.items(shares)):
            return False
        self.context.wait()
        seconds = self.drafts.clock() - began
        if all(len(share.slot.pending) == 1 for share in shares):
            self.drafts.pace.note(sum(1 + len(share.draft) for share in shares), seconds)
        self.pieces.count(shares, seconds, self._slots)
        return True

    def _schedule(self) -> list[Share]:
        """The tokens of each slot in the next call: all slots of it have the same adapters.

        Drafts are for calls without prompts. Each answer has a call between two that read prompts, of other adapters
        too.
        """
        waiting = [slot for slot in self._slots if slot.waiting]
        answers = [slot for slot in waiting if len(slot.pending) <= SHORT]
        if self.pieces.owes(answers) or any(slot.stepped < self._read for slot in answers):
            waiting = answers
        adapters = self._turns.choose(waiting)
        own = self.spoilt.apart([slot for slot in waiting if slot.adapters == adapters])
        shares = self.pieces.divide(own, beside=bool(answers) or len(own) < len(waiting))
        written = all(len(share.slot.pending) <= SHORT for share in shares)
        if written and any(share.slot.guess is not None for share in shares):
            self._drafting.add(shares)
        return [share for share in shares if share.tokens]

    def _advance(self, shares: Sequence[Share]) -> None:
        """Note the decoded tokens in their slots."""
        index = -1
        long = any(len(share.slot.pending) > SHORT for share in shares)
        if shares:
            self._calls += 1
            self._turns.note(shares[0].slot.adapters, self._calls, self._slots, long=long)
        if long:
            self._read = self._calls
        for share in shares:
            slot, tokens, draft = share.slot, share.tokens, share.draft
            slot.stepped = self._calls
            index += len(tokens)
            slot.tokens += tokens
            del slot.pending[: len(tokens)]
            slot.position += len(tokens)
            slot.cells += len(tokens) + len(draft)
            slot.output = None if slot.pending else index
            slot.begin(draft)
            slot.drafted += len(draft)
            index += len(draft)

    def _make_do(self, shares: Sequence[Share]) -> None:
        """Ask less of the next call than ``shares``, by the first of these that is possible:

        1. Leave its drafts out.
        2. Preempt an answer that waits for its reader.
        3. Let an answer wait for one that is full: it ends, and then its cells are free. ``gives_way`` chooses it.
        4. Preempt an answer: it starts over when another has ended. An answer that shares the context with nobody, not
           even with a job that waits, is never preempted.
        5. Let a text or a prompt with pictures begin anew. Without one, mark the youngest answer as full: it ends.
        """
        if any(share.draft for share in shares):
            for share in shares:
                share.slot.guess = None
            return
        if self.swapper.let_go():
            return
        working = [slot for slot in self._slots if slot.busy and not slot.full and not slot.preempted]
        movable = [slot for slot in working if not slot.opaque]
        waits = any(slot.preempted and slot.job is not None and slot.cells for slot in self._slots)
        if any(slot.busy and slot.full for slot in self._slots):
            gives_way(working).preempted = True
        elif movable and (waits or len(working) > 1):
            self.swapper.preempt(gives_way(movable))
        else:
            self.seats.end_youngest()

    def _occupy(self, slot: Slot, salt: str = "", adapters: Active = ()) -> Slot:
        """Mark the slot as busy with a new answer."""
        self._uses += 1
        slot.busy, slot.full, slot.output, slot.used = True, False, None, self._uses
        slot.ahead = slot.alone = False
        slot.salt, slot.adapters, slot.stepped = salt, adapters, self._calls
        self.numbers.settle()
        return slot
