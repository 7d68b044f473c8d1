"""The switch gate: a load waits for returned memory that arrives late, but not for ever and not in vain."""

from __future__ import annotations

import logging

import pytest
from support.memory import POLICY, FakeResident, World

from edgeserve.engine import Rung
from edgeserve.errors import DoesNotFit
from edgeserve.jobs import Job
from edgeserve.system.readings import Accelerator, AcceleratorReader, NullAccelerator
from edgeserve.units import GB, MB


def switching(late: int, returning: int, job: Job = "llm", size: int = 600, total: int = 1000) -> World:
    """A world where ``late`` MB of returned memory are not available yet; each reading brings ``returning`` MB."""
    world = World(total, FakeResident(job, size), FakeResident("tts", 0, total // 2))
    tts = world.heat("tts")
    world.later(60)

    def before_step() -> None:
        world.probe.late, world.probe.returning = late * MB, returning * MB

    tts.before_step = before_step
    return world


def test_a_load_waits_until_freed_memory_is_really_available() -> None:
    world = switching(late=800, returning=100)
    world.heat("llm")
    assert world.waits == [0.01, 0.02, 0.04]
    assert world.residents["llm"].rung is Rung.HOT


def test_available_memory_is_not_waited_for() -> None:
    world = switching(late=0, returning=0)
    world.heat("llm")
    assert world.waits == []


def test_memory_that_an_engine_keeps_on_warm_is_not_waited_for() -> None:
    """The kept memory was unknown before the step: the engine goes on to cold at once."""
    world = World(1000, FakeResident("llm", 950), FakeResident("tts", 0, 500, warm=100))
    tts = world.heat("tts")
    world.later(60)
    world.heat("llm")
    assert tts.rung is Rung.COLD
    assert world.waits == []
    assert [one["action"] for one in world.governor.evictions()] == ["offloaded", "unloaded"]


def test_the_gate_gives_up_after_ten_seconds_with_the_figure_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    world = switching(late=800, returning=0)
    with caplog.at_level(logging.WARNING):
        world.heat("llm")
    assert sum(world.waits) == pytest.approx(10)
    assert max(world.waits) == POLICY.switch_interval
    assert "fake-llm needs 0.59 GB; only 0.20 GB are available 10 s after others were moved down" in caplog.text
    assert world.residents["llm"].rung is Rung.HOT


class Unified:
    """Apple's GPU that advises to take all of the memory."""

    def read(self) -> Accelerator:
        return Accelerator("metal", 40_000 * MB, 40_000 * MB, recommended=40_000 * MB, unified=True)

    def clear_cache(self) -> None: ...


def switch_to(job: Job, private: bool, accelerator: AcceleratorReader) -> World:
    """A world whose engine maps its weights, or holds them in private memory, as MLX does."""
    wanted = FakeResident(job, 0, 30_000) if private else FakeResident(job, 30_000)
    world = World(40_000, wanted, FakeResident("llm", 0, 20_000))
    world.probe.accelerator = accelerator
    return world


@pytest.mark.parametrize("accelerator", [NullAccelerator(), Unified()])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(("job", "cap"), [("vision", 20), ("asr", 10), ("tts", 10)])
def test_the_gate_asks_for_no_more_than_its_cap(
    job: Job, cap: int, private: bool, accelerator: AcceleratorReader
) -> None:
    world = switch_to(job, private, accelerator)
    llm = world.heat("llm")
    world.later(60)
    llm.before_step = lambda: setattr(world.probe, "others", 40_000 * MB - cap * GB)
    with pytest.raises(DoesNotFit):
        world.governor.reserve(world.residents[job])
    assert world.waits == [], "the cap is there: what is short beyond it is for the plan to say"

    world = switch_to(job, private, accelerator)
    llm = world.heat("llm")
    world.later(60)
    llm.before_step = lambda: setattr(world.probe, "others", 40_000 * MB - cap * GB + 1)
    world.governor.reserve(world.residents[job])
    assert sum(world.waits) == pytest.approx(10)
