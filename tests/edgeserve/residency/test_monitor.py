"""Who is asked to step down, and when."""

from __future__ import annotations

import dataclasses
import math
import threading
from pathlib import Path
from typing import Any

import pytest
from support.cases import each
from support.gates import Clock, CountingGovernor, Mailbox, engine_of, fake_spec, make_gate
from support.server import until

from edgeserve.clients import Client
from edgeserve.engine import Rung
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import Job
from edgeserve.messages import SpeakRequest
from edgeserve.named import make_engine
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.host import Host
from edgeserve.residency.monitor import IdlePolicy, Monitor, mapped_at_start, rung_when_idle

POLICY = IdlePolicy(warm_after=60, idle_timeout=300)


@each(
    ("job", "rung", "idle", "expected"),
    [
        ("llm", Rung.HOT, 59, Rung.HOT),
        ("llm", Rung.HOT, 60, Rung.WARM),
        ("llm", Rung.HOT, 3000, Rung.WARM),
        ("vision", Rung.WARM, 3000, Rung.WARM),
        ("asr", Rung.HOT, 59, Rung.HOT),
        ("asr", Rung.HOT, 60, Rung.WARM),
        ("asr", Rung.WARM, 299, Rung.WARM),
        ("asr", Rung.WARM, 300, Rung.COLD),
        ("tts", Rung.HOT, 300, Rung.COLD),
        ("tts", Rung.COLD, 300, Rung.COLD),
    ],
)
def test_rung_when_idle(job: Job, rung: Rung, idle: float, expected: Rung) -> None:
    assert rung_when_idle(job, rung, idle, POLICY) is expected


def test_the_heap_is_returned_when_no_engine_is_hot_and_after_each_further_step() -> None:
    clock, governor = Clock(), CountingGovernor()
    gates = [make_gate(job, governor, clock=clock) for job in ("llm", "tts")]
    monitor = Monitor(lambda: gates, governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    for gate in gates:
        gate.preload()
    monitor.check()
    assert governor.heap_returns == 0
    for expected in (1, 1):  # all warm
        clock.now += 60
        monitor.check()
        assert governor.heap_returns == expected
    clock.now += 180  # one cold
    monitor.check()
    assert governor.heap_returns == 2
    gates[0].preload()
    monitor.check()
    assert governor.heap_returns == 2
    clock.now += 60
    monitor.check()
    assert governor.heap_returns == 3


def test_long_idle_engines_drop_their_prefix_cache() -> None:
    clock, governor = Clock(), CountingGovernor()
    gates = [make_gate("llm", governor, clock=clock), make_gate("vision", governor, clock=clock, pinned=True)]
    monitor = Monitor(lambda: gates, governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    clock.now += 299
    monitor.check()
    assert governor.dropped == []
    clock.now += 1
    monitor.check()
    assert governor.dropped == ["llm"]


@pytest.mark.parametrize(
    ("isolation", "files", "mapped"),
    [
        ("thread", ("a", "a"), {"llm", "vision"}),
        ("process", ("a", "a"), {"llm"}),
        ("process", ("a", "b"), {"llm", "vision"}),
        ("process", (None, None), {"llm", "vision"}),
    ],
)
def test_a_second_worker_of_one_file_waits_for_its_first_request(
    isolation: str, files: tuple[str | None, ...], mapped: set[str]
) -> None:
    jobs: tuple[Job, ...] = ("llm", "vision")
    specs = [
        dataclasses.replace(fake_spec(job), files={"model": Path(file)} if file else {})
        for job, file in zip(jobs, files, strict=True)
    ]
    governor: Any = CountingGovernor()
    hosts: list[Host] = [
        ThreadHost(make_engine(one), governor)
        if isolation == "thread"
        else ProcessHost(make_engine(one), Spawner(), governor)
        for one in (*specs, fake_spec("asr"))
    ]
    assert mapped_at_start(hosts) == mapped


def test_an_idle_timeout_below_warm_after_still_closes() -> None:
    assert rung_when_idle("asr", Rung.HOT, 5, IdlePolicy(warm_after=60, idle_timeout=5)) is Rung.COLD
    assert rung_when_idle("llm", Rung.HOT, 5, IdlePolicy(warm_after=60, idle_timeout=5)) is Rung.WARM


def test_idle_engines_step_down_one_after_the_other() -> None:
    clock, governor = Clock(), CountingGovernor()
    gates = [make_gate(job, governor, clock=clock) for job in ("llm", "tts")]
    monitor = Monitor(lambda: gates, governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    for gate in gates:
        gate.preload()
    clock.now += 30
    monitor.check()
    assert [gate.rung for gate in gates] == [Rung.HOT, Rung.HOT]
    clock.now += 30
    monitor.check()
    assert [gate.rung for gate in gates] == [Rung.WARM, Rung.WARM]
    clock.now += 240
    monitor.check()
    assert [gate.rung for gate in gates] == [Rung.WARM, Rung.COLD]
    assert [step[2] for step in governor.steps] == ["idle"] * 3


@each(
    ("job", "rung", "idle", "keep_alive", "expected"),
    [
        ("llm", Rung.HOT, 0, 0, Rung.WARM),
        ("vision", Rung.WARM, 9, 0, Rung.WARM),
        ("asr", Rung.HOT, 0, 0, Rung.COLD),
        ("tts", Rung.WARM, 0, 0, Rung.COLD),
        ("tts", Rung.COLD, 0, 0, Rung.COLD),
        ("asr", Rung.HOT, 599, 600, Rung.HOT),
        ("asr", Rung.HOT, 600, 600, Rung.COLD),
        ("llm", Rung.HOT, 10**9, math.inf, Rung.HOT),
        ("asr", Rung.WARM, 10**9, math.inf, Rung.WARM),
    ],
)
def test_a_keep_alive_is_in_place_of_both_times(
    job: Job, rung: Rung, idle: float, keep_alive: float, expected: Rung
) -> None:
    assert rung_when_idle(job, rung, idle, POLICY, keep_alive) is expected


def test_a_keep_alive_holds_until_the_next_request() -> None:
    clock, governor = Clock(), CountingGovernor()
    gate = make_gate("asr", governor, clock=clock)
    monitor = Monitor(lambda: [gate], governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    for keep_alive, idle, rung in ((0.0, 0, Rung.COLD), (math.inf, 10**6, Rung.HOT), (None, 60, Rung.WARM)):
        gate.preload()
        gate.acquire(keep_alive)
        monitor.check()
        assert gate.rung is Rung.HOT
        gate.release()
        clock.now += idle
        monitor.check()
        assert gate.rung is rung
    assert [reason for _, _, reason in governor.steps] == ["keep_alive", "idle"]


def test_one_client_ends_no_time_that_another_asked_for() -> None:
    clock, governor = Clock(), CountingGovernor()
    gate = make_gate("asr", governor, clock=clock)
    monitor = Monitor(lambda: [gate], governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    gate.preload()
    ada, bob = Client(address="10.0.0.1"), Client(address="10.0.0.2")
    for client, keep_alive in ((ada, 100.0), (bob, 0.0)):
        gate.acquire(keep_alive, client)
        gate.release(client)
    assert (gate.wanted_by_others(bob), gate.wanted_by_others(ada)) == (True, False)
    for seconds, rung in ((0, Rung.HOT), (99, Rung.HOT), (1, Rung.COLD)):
        clock.now += seconds
        monitor.check()
        assert gate.rung is rung
    assert not gate.wanted_by_others(bob)


def test_a_preload_restores_the_configured_times() -> None:
    clock, governor = Clock(), CountingGovernor()
    gate = make_gate("asr", governor, clock=clock)
    gate.acquire(0.0)
    gate.release()
    gate.preload()
    Monitor(lambda: [gate], governor, POLICY, threading.Event(), clock).check()  # type: ignore[arg-type]
    assert gate.rung is Rung.HOT


def test_the_next_round_comes_when_a_keep_alive_ends() -> None:
    clock, governor = Clock(), CountingGovernor()
    gates = [make_gate(job, governor, clock=clock) for job in ("llm", "asr", "tts")]
    monitor = Monitor(lambda: gates, governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    assert monitor.pause() == POLICY.check_interval
    for gate, keep_alive in zip(gates, (12.0, math.inf, 0.0), strict=True):
        gate.acquire(keep_alive)
        gate.release()
    clock.now += 2
    assert monitor.pause() == 10.0


def test_what_shall_go_goes_when_its_work_has_ended() -> None:
    """The client has gone, but its work is not at its end: the monitor is told again when it is."""
    governor = CountingGovernor()
    nudge = threading.Event()
    gate = make_gate("tts", governor, on_idle=nudge.set)
    entered, go = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        assert go.wait(10)

    gate.preload()
    engine_of(gate).on_work = work
    monitor = Monitor(lambda: [gate], governor, POLICY, nudge)  # type: ignore[arg-type]
    checks: list[Rung] = []
    check, monitor.check = monitor.check, lambda: (check(), checks.append(gate.rung))  # type: ignore[assignment]
    monitor.start()
    gate.acquire(0.0)
    box = Mailbox()
    gate.submit(box.work(SpeakRequest("Hello.")))
    assert entered.wait(10)
    gate.release()
    until(lambda: checks == [Rung.HOT])
    go.set()
    until(lambda: gate.rung is Rung.COLD)
    monitor.stop()
    gate.stop()


def test_leased_and_pinned_engines_are_left_alone() -> None:
    clock, governor = Clock(), CountingGovernor()
    leased, pinned = make_gate("asr", governor, clock=clock), make_gate("tts", governor, clock=clock, pinned=True)
    monitor = Monitor(lambda: [leased, pinned], governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    for gate in (leased, pinned):
        gate.preload()
    leased.acquire()
    clock.now += 1000
    monitor.check()
    assert (leased.rung, pinned.rung) == (Rung.HOT, Rung.HOT)
    leased.release()
    monitor.check()
    assert leased.rung is Rung.HOT  # its idle time starts now
    pinned.acquire(0.0)
    pinned.release()
    monitor.check()
    assert pinned.rung is Rung.HOT


def test_the_thread_starts_checks_and_stops() -> None:
    clock, governor = Clock(), CountingGovernor()
    gate = make_gate("tts", governor, clock=clock)
    gate.preload()
    clock.now += 1000
    monitor = Monitor(lambda: [gate], governor, IdlePolicy(check_interval=0.001), threading.Event(), clock)  # type: ignore[arg-type]
    monitor.start()
    until(lambda: bool(governor.steps))
    monitor.stop()
    assert gate.rung is Rung.COLD


def test_an_engine_that_fails_to_park_does_not_keep_the_others_up(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(CountingGovernor):
        def step_down(self, resident: Any, to: Rung, reason: str) -> None:
            if resident.id == "llm":
                raise OSError("the mapping is gone")
            super().step_down(resident, to, reason)

    clock, governor = Clock(), Failing()
    gates = [make_gate(job, governor, clock=clock) for job in ("llm", "tts")]
    monitor = Monitor(lambda: gates, governor, POLICY, threading.Event(), clock)  # type: ignore[arg-type]
    for gate in gates:
        gate.preload()
    clock.now += 60
    monitor.check()
    assert gates[1].rung is Rung.WARM
    assert "fake-llm failed to step down" in caplog.text
    for gate in gates:
        gate.stop()
