"""Who begins next beside a prompt that needs the whole context."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from support.contract import ask
from support.gates import Clock, Mailbox

from edgeserve.clients import Client
from edgeserve.errors import ContextReduced
from edgeserve.messages import EmbeddingEvent, EmbedRequest
from edgeserve.residency.queue import CLOSED_SECONDS, WHOLE_SECONDS
from edgeserve.residency.rounds import Place
from edgeserve.residency.turns import Turns
from edgeserve.residency.work import Admitted, Work

ADA, BOB = (Client(address=f"192.0.2.{number}") for number in (1, 2))


class Gate:
    """Turns of an engine of 4 slots, with no threads. ``reduced``: its context is not the whole one."""

    def __init__(self) -> None:
        self.clock, self.reduced, self.under_way = Clock(), True, list[Admitted]()
        self.host = SimpleNamespace(slots=4, submit=self._submit, check_kind=lambda request: None, stuck=False)
        self.host.spec, self.host.wake = SimpleNamespace(name="chat"), lambda: None
        self.turns = Turns(cast(Any, self.host), threading.Condition(), self._reserve, lambda: None, self.clock)

    def _submit(self, work: Work, turns: Turns) -> None:
        assert turns.arriving() is work
        assert turns.arrive(work)

    def _reserve(self, admitted: Admitted, beside: bool) -> bool:
        if admitted.work.whole and self.reduced:
            if beside:
                return False
            self.reduced = False
        return True

    def ask(self, client: Client, box: Mailbox, *, whole: bool = False) -> Work:
        work = box.work(ask("word"))
        work.place = Place(client)
        if whole:
            work.ask_for_whole(ContextReduced("1 of 3 tokens"))
        self.turns.submit(work)
        return work

    def admit(self) -> Work | None:
        found = self.turns.admit(beside=bool(self.under_way))
        if found is None:
            return None
        self.under_way.append(found)
        return found.work

    def end(self, error: Exception | None = None) -> None:
        self.turns.finish(self.under_way.pop(0), error)


def test_others_begin_while_a_prompt_waits_for_the_whole_context() -> None:
    """Behind it, all others waited for the end of the longest answer under way: that of the same client, perhaps."""
    gate, box = Gate(), Mailbox()
    gate.ask(ADA, box)
    gate.admit()
    long = gate.ask(ADA, box, whole=True)
    shorts = [gate.ask(BOB, box) for _ in range(2)]
    assert [gate.admit() for _ in range(3)] == [*shorts, None]
    assert gate.turns.waits()
    for _ in range(3):
        gate.end()
    later = gate.ask(BOB, box)
    assert [gate.admit(), gate.admit()] == [long, later], "it has its turn where nothing is under way"


def test_a_prompt_that_finds_the_engine_busy_for_long_is_refused_after_all() -> None:
    gate, box = Gate(), Mailbox()
    gate.ask(BOB, box)
    gate.admit()
    refused = Mailbox()
    gate.ask(ADA, refused, whole=True)
    gate.ask(BOB, box)
    assert gate.admit() is not None
    gate.clock.now += WHOLE_SECONDS
    assert gate.admit() is None
    assert isinstance(refused.rest()[1], ContextReduced)
    assert not gate.turns.waits()


def test_a_prompt_that_has_waited_keeps_others_from_beginning_for_a_while() -> None:
    """Beside short answers without end, it would else never find the engine free."""
    gate, box = Gate(), Mailbox()
    gate.ask(BOB, box)
    gate.admit()
    long = gate.ask(ADA, box, whole=True)
    first = gate.ask(BOB, box)
    assert gate.admit() is first
    gate.clock.now += CLOSED_SECONDS
    second = gate.ask(BOB, box)
    assert gate.admit() is None
    gate.end()
    assert gate.admit() is None
    gate.end()
    assert [gate.admit(), gate.admit()] == [long, second]


def test_others_wait_for_prompts_a_third_of_the_time_at_most() -> None:
    gate, box = Gate(), Mailbox()
    gate.ask(BOB, box)
    gate.admit()
    closed = []
    for _ in range(9):
        gate.ask(ADA, box, whole=True)
        short = gate.ask(BOB, box)
        closed.append(gate.admit() is None)
        gate.turns.cancel(short)
        gate.under_way = gate.under_way[:1]
        gate.clock.now += CLOSED_SECONDS
    assert closed == [False, True, False, False, True, False, False, True, False]


def test_others_begin_beside_answers_that_wait_for_their_readers_alone() -> None:
    """A prompt that had waited kept them out for 10 s, while nothing was computed."""
    gate, box = Gate(), Mailbox()
    gate.ask(BOB, box)
    gate.admit()
    gate.ask(ADA, box, whole=True)
    gate.admit()
    gate.clock.now += CLOSED_SECONDS
    short = gate.ask(BOB, box)
    gate.host.stuck = True
    assert gate.admit() is short
    gate.under_way.pop()
    later = gate.ask(BOB, box)
    gate.host.stuck = False
    assert gate.admit() is None, "the answer goes on, and its end is worth the wait"
    gate.host.stuck = True
    assert gate.admit() is later


def test_a_prompt_whose_client_left_as_it_began_waits_for_no_whole_context() -> None:
    """Its cancel found it under way. It then waited in the queue, and kept others from beginning."""
    gate, box, gone = Gate(), Mailbox(), Mailbox()
    for client, mailbox in ((ADA, gone), (BOB, box)):
        gate.ask(client, mailbox)
        gate.admit()
    gate.turns.cancel(gate.under_way[0].work)
    gate.end(ContextReduced("1 of 3 tokens"))
    assert not gate.turns.waits()
    assert gone.rest()[1] is not None


def test_a_list_at_rest_gets_the_whole_context_where_others_have_reduced_it() -> None:
    """Its next text was longer than a context that others had taken meanwhile: it ended with their error."""
    gate, box = Gate(), Mailbox()
    work = Work(EmbedRequest(("one", "two")), box.items.put, place=Place(ADA))
    gate.turns.submit(work)
    gate.admit()
    assert work.rest_behind(EmbeddingEvent(b"", 1), 1)
    gate.end()
    gate.admit()
    other = gate.ask(BOB, box)
    gate.admit()
    gate.end(ContextReduced("1 of 3 tokens"))
    assert gate.turns.waits()
    assert gate.admit() is None, "the other one is under way"
    assert gate.under_way[0].work is other
    gate.end()
    assert gate.admit() is work
    assert not gate.reduced
    gate.end()
    assert [box.rest()[1], box.rest()[1]] == [None, None]
    assert not gate.turns.work


def test_a_prompt_of_a_client_with_an_answer_under_way_keeps_nobody_waiting() -> None:
    gate, box = Gate(), Mailbox()
    gate.ask(ADA, box)
    gate.admit()
    gate.ask(ADA, box, whole=True)
    assert gate.admit() is None
    gate.clock.now += CLOSED_SECONDS
    short = gate.ask(BOB, box)
    assert gate.admit() is short


def test_a_prompt_goes_beside_others_once_the_context_is_whole() -> None:
    gate, box = Gate(), Mailbox()
    gate.ask(BOB, box)
    gate.admit()
    long = gate.ask(ADA, box, whole=True)
    assert gate.admit() is None
    gate.reduced = False
    assert gate.admit() is long


def test_an_unread_answer_gives_its_place_to_a_prompt_that_needs_the_whole_context() -> None:
    gate, box = Gate(), Mailbox()
    unread = gate.ask(BOB, box)
    gate.admit()
    gate.ask(ADA, box, whole=True)
    gate.host.slowest, gate.host.unread = lambda seconds: unread, lambda seconds: (unread,)
    assert gate.admit() is None
    assert gate.turns.cut_for_waiting()
    assert unread.cancel.is_set()


def test_clients_take_turns_once_the_context_is_whole() -> None:
    gate, box = Gate(), Mailbox()
    first = [gate.ask(ADA, box, whole=True) for _ in range(4)]
    other, short = gate.ask(BOB, box, whole=True), gate.ask(BOB, box)
    assert [gate.admit() for _ in range(2)] == [first[0], other]
    first[0].told = True  # its prompt was read
    assert [gate.admit() for _ in range(2)] == [first[1], short]


def test_work_sees_all_that_has_not_ended() -> None:
    """At critical memory, requests that wait count for their client, too."""
    gate, box = Gate(), Mailbox()
    first = gate.ask(ADA, box)
    gate.admit()
    second = gate.ask(BOB, box)
    assert [*first.peers()] == [first, second]
    gate.end()
    assert [*second.peers()] == [second]


@given(st.lists(st.sampled_from(["whole", "short", "admit", "end", "reduce", "wait", "cancel"]), max_size=60))
def test_every_prompt_begins_or_ends(does: list[str]) -> None:
    gate, boxes, works = Gate(), list[Mailbox](), list[Work]()
    for number, one in enumerate(does):
        if one in ("whole", "short"):
            boxes.append(Mailbox())
            works.append(gate.ask((ADA, BOB)[number % 2], boxes[-1], whole=one == "whole"))
        elif one == "admit":
            gate.admit()
        elif one == "end" and gate.under_way:
            gate.end()
        elif one == "reduce":
            gate.reduced = True
        elif one == "wait":
            gate.clock.now += WHOLE_SECONDS / 3
        elif one == "cancel":
            for work in works[:1]:
                work.cancel.set()
    for _ in range(len(works) + 5):  # from now on an answer is always under way
        boxes.append(Mailbox())
        works.append(gate.ask(BOB, boxes[-1]))
        while gate.admit():
            pass
        gate.clock.now += WHOLE_SECONDS / 3
        while len(gate.under_way) > 1:
            gate.end()
    late = [work for work in gate.turns.work if work.whole and not work.place.running]
    assert not late, "none waits for longer"
    while gate.admit() or gate.under_way:
        if gate.under_way:
            gate.end()
    assert all(box.rest() for box in boxes)
    assert not gate.turns.waits()
    assert not gate.turns.work
    assert {work.place.running for work in works} <= {0}
