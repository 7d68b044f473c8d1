"""The steps and figures of the engine in a worker."""

from __future__ import annotations

import time

import pytest

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.hosts.loop import loop_of
from edgeserve.hosts.runs import Runs
from edgeserve.hosts.steps import Steps


class Weighed(FakeBatchChat):
    """Counts how often it is measured, which takes a walk over all pages of a real model."""

    measured = 0

    def footprint(self) -> Footprint:
        self.measured += 1
        return super().footprint()


@pytest.fixture
def engine() -> Weighed:
    return Weighed(ModelSpec("llm", "fake", "edgeserve.engines.fake.chat:FakeBatchChat"))


@pytest.fixture
def steps(engine: Weighed) -> Steps:
    steps = Steps(engine, loop_of(engine, Runs(lambda: None, time.monotonic)), {})
    steps.take("open", ())
    steps.take("heat", ())
    return steps


def test_the_figures_follow_each_step(engine: Weighed, steps: Steps) -> None:
    assert steps.state().footprint.mapped == engine.estimate().mapped > 0
    steps.take("park", ())
    assert steps.state().footprint.mapped == 0


def test_no_answer_waits_for_a_measurement(engine: Weighed, steps: Steps) -> None:
    """The state is told at the start and at the end of answers."""
    before = engine.measured
    steps.use()
    for _ in range(3):
        steps.state()
    assert engine.measured == before
    assert steps.used
    steps.measure()
    assert engine.measured == before + 1
    assert not steps.used
