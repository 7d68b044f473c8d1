"""The thread of the pressure loop: estimates at its start, rounds, and its end."""

from __future__ import annotations

import dataclasses
import threading

import pytest
from support.memory import FakeResident, World

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.pressure_loop import PressureLoop
from edgeserve.system.readings import Readings
from edgeserve.units import MB


def test_every_engine_is_estimated_before_the_first_request() -> None:
    world = World(1000, FakeResident("asr", 100, 10))
    known = threading.Event()
    resident = world.residents["asr"]
    estimate = resident.estimate

    def noted() -> Footprint:
        known.set()
        return estimate()

    resident.estimate = noted  # type: ignore[method-assign]
    world.governor.start()
    assert known.wait(10)
    world.governor.stop()
    assert world.governor.accounts["asr"].source == "estimate"


def full(policy: MemoryPolicy) -> tuple[World, threading.Event]:
    """A full machine with an idle engine, and the event of its step down."""
    world = World(1000, FakeResident("asr", 0, 10), policy=policy)
    asr = world.heat("asr")
    world.later(60)
    moved = threading.Event()
    asr.before_step = moved.set
    world.probe.base = 950 * MB
    return world, moved


def test_the_loop_relieves_pressure_and_ends() -> None:
    policy = MemoryPolicy(pressure_interval=0.05, os_reserve_gb=0, available_margin_gb=0, max_percent=1.0)
    world, moved = full(policy)
    before = set(threading.enumerate())
    world.governor.start()
    assert moved.wait(10)
    world.governor.stop()
    assert set(threading.enumerate()) <= before


def test_another_policy_holds_before_the_old_interval_ends() -> None:
    policy = MemoryPolicy(pressure_interval=3600, os_reserve_gb=0, available_margin_gb=0, max_percent=1.0)
    world, moved = full(policy)
    world.governor.start()
    assert not moved.is_set()
    world.governor.follow(dataclasses.replace(policy, pressure_interval=0.05))
    assert moved.wait(10)
    world.governor.stop()


def test_a_reservation_under_pressure_wakes_the_loop() -> None:
    world = World(1000, FakeResident("asr", 0, 10), FakeResident("tts", 0, 1))
    asr = world.heat("asr")
    world.heat("tts")
    world.later(60)
    moved = threading.Event()
    asr.before_step = moved.set
    world.governor.start()
    world.probe.base = 850 * MB
    assert not moved.is_set()
    world.governor.release(world.governor.reserve(world.residents["tts"]))
    assert moved.wait(10), "not only after the interval of 15 s"
    world.governor.stop()


def test_an_engine_that_cannot_be_expected_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(1000, FakeResident("asr", 0, 10), FakeResident("tts", 0, 10))
    known = threading.Event()

    def find(spec: ModelSpec) -> None:
        if spec.job == "asr":
            raise OSError("the disk is gone")
        known.set()

    monkeypatch.setattr(world.peaks, "find", find)
    world.governor.start()
    assert known.wait(10), "the engines after it are estimated"
    relieved = threading.Event()

    def read_quick() -> Readings:
        relieved.set()
        return world.probe.read()

    world.probe.read_quick = read_quick
    world.probe.base = 850 * MB
    world.governor.reserve_at_once(world.residents["tts"])
    assert relieved.wait(10), "and the loop goes on"
    world.governor.stop()
    assert "fake-asr could not be estimated ahead" in caplog.text


def test_a_round_that_fails_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    rounds = threading.Semaphore(0)

    def fail() -> None:
        rounds.release()
        raise OSError("no reading")

    accounts = Accounts(MemoryPolicy(pressure_interval=0.05))
    loop = PressureLoop(accounts, fail)
    loop.start()
    assert rounds.acquire(timeout=10)
    assert rounds.acquire(timeout=10)
    accounts.close()
    loop.join()
    assert "the pressure check failed; the next is in 0.05 s" in caplog.text
