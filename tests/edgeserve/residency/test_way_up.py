"""The way up of gates that do not fit together: they take turns, by the real governor, on threads."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator

import pytest
from support.contract import ask
from support.gates import Clock, Held, Mailbox, engine_of, make_gate, run
from support.memory import POLICY, World
from support.server import until

from edgeserve.engine import Rung
from edgeserve.errors import Cancelled
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.governor import Governor
from edgeserve.messages import SpeakRequest
from edgeserve.residency.gate import Gate
from edgeserve.residency.work import Work

ONE_AT_A_TIME = dataclasses.replace(POLICY, min_hot_seconds=0.0)


@pytest.fixture
def gates() -> Iterator[tuple[Governor, Gate, Gate]]:
    """Chat and speech, on a machine that one of them fits in. No time passes: a slow load would keep it hot."""
    world, clock = World(200), Clock()
    governor = Governor(Accounts(ONE_AT_A_TIME, clock=clock), world.probe, trim=lambda: None)
    made = [make_gate(job, governor, queue_limit=100, clock=clock) for job in ("llm", "tts")]
    for gate in made:
        governor.adopt(gate)
        world.probe.residents.append(gate)
    yield governor, made[0], made[1]
    for gate in made:
        gate.stop()


def submit(gate: Gate, work: Work) -> None:
    gate.acquire()
    gate.submit(work)


def at_work(chat: Gate) -> tuple[Held, Mailbox]:
    """The hold of an engine that is at work on a request, and the request's reader."""
    chat.preload()
    held, first = Held(engine_of(chat)), Mailbox()
    submit(chat, first.work(ask("one")))
    assert held.entered.wait(10)
    return held, first


def test_clients_who_always_ask_again_do_not_keep_another_model_out(gates: tuple[Governor, Gate, Gate]) -> None:
    """Chat always has leases and waiting requests, so that nobody ever finds it idle."""
    _, chat, speech = gates
    done, errors = threading.Event(), list[object]()

    def flood() -> None:
        while not done.is_set():
            errors.append(run(chat, ask("one two three"))[1])

    threads = [threading.Thread(target=flood) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(errors) > 10)
    try:
        assert [run(speech, SpeakRequest("One."))[1] for _ in range(3)] == [None] * 3
        asked = len(errors)
        until(lambda: len(errors) > asked)  # and chat goes on
    finally:
        done.set()
        for thread in threads:
            thread.join(20)
    assert set(errors) == {None}
    assert "park" in engine_of(chat).steps, "it made way"


def test_a_model_in_the_way_admits_nothing_new_until_the_ticket_is_served(gates: tuple[Governor, Gate, Gate]) -> None:
    governor, chat, speech = gates
    held, first = at_work(chat)
    second, spoken = Mailbox(), Mailbox()
    submit(speech, spoken.work(SpeakRequest("One.")))
    until(lambda: governor.stats()["waiting"] == ["tts"])
    submit(chat, second.work(ask("two")))
    held.go.set()
    for box in (first, spoken, second):
        assert box.rest()[1] is None
    assert engine_of(chat).steps == ["open", "heat", "park", "heat"]
    assert engine_of(speech).steps[:2] == ["open", "heat"]


def test_a_ticket_whose_client_has_gone_keeps_nobody(gates: tuple[Governor, Gate, Gate]) -> None:
    governor, chat, speech = gates
    held, first = at_work(chat)
    second, spoken = Mailbox(), Mailbox()
    gone = spoken.work(SpeakRequest("One."))
    submit(speech, gone)
    until(lambda: bool(governor.accounts.tickets))
    speech.cancel(gone)
    assert isinstance(spoken.rest()[1], Cancelled)
    assert not governor.accounts.tickets
    submit(chat, second.work(ask("two")))
    held.go.set()
    assert (first.rest()[1], second.rest()[1]) == (None, None)
    assert engine_of(chat).steps == ["open", "heat"], "it never made way"
    assert speech.rung is Rung.COLD


def test_a_gate_that_stops_gives_its_ticket_back(gates: tuple[Governor, Gate, Gate]) -> None:
    governor, chat, speech = gates
    held, first = at_work(chat)
    spoken = Mailbox()
    submit(speech, spoken.work(SpeakRequest("One.")))
    until(lambda: bool(governor.accounts.tickets))
    speech.stop()
    governor.forget(speech)
    assert not governor.accounts.tickets
    held.go.set()
    assert first.rest()[1] is None
