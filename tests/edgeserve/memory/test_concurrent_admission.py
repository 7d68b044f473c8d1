"""Admission while other engines move, fail or ask for memory at the same time."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest
from support.memory import FakeResident, World

from edgeserve.engine import Rung
from edgeserve.errors import EngineFailure
from edgeserve.memory.switch import FIRST_LOOK
from edgeserve.units import MB


def test_an_engine_that_came_into_use_meanwhile_is_passed_over() -> None:
    world = World(1000, FakeResident("llm", 600), FakeResident("asr", 0, 300), FakeResident("tts", 0, 250))
    asr, tts = world.heat("asr"), world.heat("tts")
    tts.last_used = 10.0
    world.later(60)
    tts.refuses = True
    world.heat("llm")
    assert (asr.rung, tts.rung) == (Rung.WARM, Rung.HOT)


def test_an_engine_that_fails_to_step_down_does_not_fail_the_request(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("llm", 600), FakeResident("asr", 0, 300), FakeResident("tts", 0, 250))
    asr, tts = world.heat("asr"), world.heat("tts")
    tts.last_used = 10.0
    world.later(60)

    def fail() -> None:
        raise EngineFailure("park failed")

    tts.before_step = fail
    world.heat("llm")
    assert asr.rung is Rung.WARM
    assert "fake-tts could not be moved down to warm" in caplog.text


def test_decision_and_booking_happen_under_one_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1000, FakeResident("llm", 100))
    accounts, owned = world.governor.accounts, []
    monkeypatch.setattr(accounts, "turn", _noting(accounts.turn, accounts, owned))
    reservations = world.governor._admission.reservations
    monkeypatch.setattr(reservations, "book", _noting(reservations.book, accounts, owned))
    world.heat("llm")
    world.heat("llm")
    assert owned == [True] * 4, "decide and book, for the cold and for the hot engine"


def _noting(method: Any, accounts: Any, owned: list[bool]) -> Any:
    def noting(*args: Any, **kwargs: Any) -> Any:
        owned.append(accounts.changed._is_owned())
        return method(*args, **kwargs)

    return noting


def test_two_requests_at_once_do_not_overcommit() -> None:
    """Each engine fits alone. The second one asks while the first is on its way up and has taken nothing yet."""
    world = World(1000, FakeResident("llm", 600), FakeResident("asr", 600))
    llm = world.residents["llm"]
    first = world.governor.reserve(llm)
    booked: list[int] = []

    def on_wait() -> None:
        booked.append(world.booked())
        if len(booked) == 3:
            llm.climb()
            world.governor.settle(first)
        if len(booked) == 5:
            world.governor.release(first)

    world.on_wait = on_wait
    world.heat("asr")
    assert booked == [600 * MB] * 5
    assert llm.rung is Rung.WARM
    assert world.booked() == 600 * MB


def test_a_hot_engine_is_served_while_another_moves_and_its_memory_returns() -> None:
    """The lock is free while an engine steps down and while the switch gate waits."""
    world = World(2000, FakeResident("llm", 1200), FakeResident("asr", 0, 900), FakeResident("tts", 0, 100, 5))
    asr = world.heat("asr")
    tts = world.heat("tts")
    tts.pinned = True
    world.later(60)
    served: list[str] = []

    def serve(when: str) -> None:
        def once() -> None:
            world.governor.release(world.governor.reserve(tts))
            served.append(when)

        thread = threading.Thread(target=once)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    def before_step() -> None:
        serve("while stepping down")
        world.probe.late, world.probe.returning = 1000 * MB, 200 * MB

    asr.before_step = before_step
    llm = world.residents["llm"]
    world.governor.release(world.governor.reserve(llm))
    assert served == ["while stepping down"]
    assert world.waits == [FIRST_LOOK], "the switch gate"


def test_an_inexact_measurement_is_neither_booked_nor_learned() -> None:
    """An engine measures itself by the growth of the process, which may include other engines' memory."""
    asr, llm = FakeResident("asr", 0, 100, takes=100), FakeResident("llm", 0, 50, 5)
    world = World(1000, asr, llm)
    reservation = world.governor.reserve(asr)
    asr.takes = dataclasses.replace(asr.takes, private=300 * MB)
    world.heat("llm")
    asr.climb()
    world.governor.settle(reservation)
    world.governor.release(reservation)
    assert world.booked() == 150 * MB
    assert world.peaks.find(asr.spec) is None
    record = world.governor.step_down(asr, Rung.COLD, "idle")
    assert record is not None
    assert not record.exact
    asr.takes = dataclasses.replace(asr.takes, private=120 * MB)
    world.heat("asr")
    assert world.booked() == 170 * MB, "alone it is measured"
