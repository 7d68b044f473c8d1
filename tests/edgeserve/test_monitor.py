"""Who is asked to step down, and when."""

from __future__ import annotations

import pytest
from support.gates import Clock, CountingGovernor, make_gate

from edgeserve.engine import Job, Rung
from edgeserve.monitor import IdlePolicy, Monitor, rung_when_idle

POLICY = IdlePolicy(warm_after=60, idle_timeout=300)


@pytest.mark.parametrize(
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


def test_an_idle_timeout_below_warm_after_still_closes() -> None:
    assert rung_when_idle("asr", Rung.HOT, 5, IdlePolicy(warm_after=60, idle_timeout=5)) is Rung.COLD
    assert rung_when_idle("llm", Rung.HOT, 5, IdlePolicy(warm_after=60, idle_timeout=5)) is Rung.WARM


def test_idle_engines_step_down_one_after_the_other() -> None:
    clock, governor = Clock(), CountingGovernor()
    gates = [make_gate(job, governor, clock=clock) for job in ("llm", "tts")]
    monitor = Monitor(gates, governor, POLICY, clock)  # type: ignore[arg-type]
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


def test_leased_and_pinned_engines_are_left_alone() -> None:
    clock, governor = Clock(), CountingGovernor()
    leased, pinned = make_gate("asr", governor, clock=clock), make_gate("tts", governor, clock=clock, pinned=True)
    monitor = Monitor([leased, pinned], governor, POLICY, clock)  # type: ignore[arg-type]
    for gate in (leased, pinned):
        gate.preload()
    leased.acquire()
    clock.now += 1000
    monitor.check()
    assert (leased.rung, pinned.rung) == (Rung.HOT, Rung.HOT)
    leased.release()
    monitor.check()
    assert leased.rung is Rung.HOT  # its idle time starts now


def test_the_thread_starts_checks_and_stops() -> None:
    clock, governor = Clock(), CountingGovernor()
    gate = make_gate("tts", governor, clock=clock)
    gate.preload()
    clock.now += 1000
    monitor = Monitor([gate], governor, IdlePolicy(check_interval=0.001), clock)  # type: ignore[arg-type]
    monitor.start()
    while not governor.steps:
        monitor._stopped.wait(0.001)
    monitor.stop()
    assert gate.rung is Rung.COLD
