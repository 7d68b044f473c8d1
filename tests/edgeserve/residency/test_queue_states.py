"""The queue of a gate in any order of what may happen to it: nobody is forgotten, and nothing of the ended is kept."""

from __future__ import annotations

import threading

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.contract import ask
from support.examples import examples

from edgeserve.clients import Client, Idle
from edgeserve.errors import ContextReduced
from edgeserve.messages import TokenEvent
from edgeserve.residency.queue import Queue
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import Work

CLIENTS = [Client(key, address) for key in ("home", "work") for address in ("192.0.2.1", "192.0.2.2")]
SIZES = st.sampled_from([10, 2048, 3000, 9000, 40_000])


class QueueStates(RuleBasedStateMachine):
    """``waiting`` and ``under_way``: what the queue should have there."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(threading.Condition(), lambda: 4)
        self.waiting: list[Work] = []
        self.under_way: list[Work] = []
        self.unread: set[Work] = set()

    @rule(client=st.sampled_from(CLIENTS), sizes=st.lists(SIZES, min_size=1, max_size=3), whole=st.booleans())
    def arrives(self, client: Client, sizes: list[int], whole: bool) -> None:
        place = Place(client)
        for size in sizes:
            work = Work(ask("x" * size), lambda item: None, place=place)
            work.room = lambda work=work: work not in self.unread  # type: ignore[misc]
            self.queue.add(work)
            if whole:
                work.ask_for_whole(ContextReduced("the context holds 512 tokens"))
            assert self.queue.arrive(work)
            self.waiting.append(work)

    def _take(self, newcomer: Idle | None = None) -> Work | None:
        """As ``Turns.admit``."""
        if (work := self.queue.take_whole(newcomer)) is not None:
            self.queue.rejoin()
        return work or self.queue.take(newcomer)

    @rule(newcomer=st.sampled_from([None, Idle.CLIENT, Idle.KEY]), fits=st.booleans())
    def begins(self, newcomer: Idle | None, fits: bool) -> None:
        work = self._take(newcomer)
        if work is None:
            return
        self.waiting.remove(work)
        if fits:
            self.under_way.append(work)
        else:
            self.queue.put_back(work)
            self.waiting.append(work)
            assert self.queue.waits()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        work = data.draw(st.sampled_from(self.under_way))
        what = data.draw(st.sampled_from(["read", "full", "empty", "end", "whole", "cancel"]))
        if what == "read":
            work.tell(TokenEvent("a"))
        elif what == "full":
            self.unread.add(work)
        elif what == "empty":
            self.unread.discard(work)
        else:
            work.cancel.set() if what == "cancel" else None
            self.under_way.remove(work)
            error = ContextReduced("the context holds 512 tokens") if what == "whole" else None
            if self.queue.wait_again(work, error):
                self.waiting.append(work)
            else:
                assert self.queue.end(work)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def is_withdrawn(self, data: st.DataObject) -> None:
        work = data.draw(st.sampled_from(self.waiting))
        assert self.queue.withdraw(work)
        assert self.queue.end(work)
        self.waiting.remove(work)

    @invariant()
    def who_has_nothing_to_read_may_begin(self) -> None:
        reading = {one.place.client for one in self.under_way if one.prompt and not one.told and one.room()}
        places = {one.place for one in self.under_way if one.prompt and not one.told}
        free = [one for one in self.waiting if one.place.client not in reading and one.place not in places]
        assert self.queue.waits() or not free
        assert set(self.queue) == {*self.waiting, *self.under_way}

    @invariant()
    def who_waits_gets_a_turn(self) -> None:
        """``waits`` and ``take`` agree: else a host would go round for nothing, or not at all."""
        waits = self.queue.waits()
        work = self.queue.take_whole() or self.queue.take()
        assert waits is (work is not None)
        if work is not None:
            self.queue.put_back(work)
            again = self.queue.take_whole() or self.queue.take()
            assert again is not None
            self.queue.put_back(again)
            assert again is work or work.whole, "of those that ask for the whole context, the next one is tried"

    def teardown(self) -> None:
        self.unread.clear()
        for _ in range(2 * len(self.waiting) + 2):
            while (work := self._take()) is not None:
                self.waiting.remove(work)
                self.under_way.append(work)
            for work in self.under_way:
                assert self.queue.end(work)
            self.under_way.clear()
        assert not self.waiting
        assert not self.queue.waits()
        rounds = [one for one in vars(self.queue).values() if hasattr(one, "is_idle")]
        for kept in ("_lines", "_waiting", "_taken", "_since", "_before"):
            assert not any(len(vars(one)[kept]) for one in rounds), kept


TestQueueStates = QueueStates.TestCase
TestQueueStates.settings = examples(50, stateful_step_count=30)
