"""The steps and figures of the engine in a worker."""

from __future__ import annotations

import time

import pytest

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.hosts.loop import loop_of
from edgeserve.hosts.runs import Runs
from edgeserve.hosts.steps import Steps
from edgeserve.units import MB


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


def test_memory_that_requests_hold_is_none_of_the_engine(engine: Weighed) -> None:
    """Tokens of a long text, ready before the way up, raised the learned peak of a chat from 217 to 274 MB."""
    steps = Steps(engine, loop_of(engine, Runs(lambda: None, time.monotonic)), {})
    steps.take("open", ())
    opened = steps.state().footprint.private
    request = b"x" * (200 * MB)
    steps.take("heat", ())
    beside = steps.state().footprint.private
    assert beside <= opened + engine.estimate().private
    steps.use()
    steps.measure()
    assert steps.state().footprint.private == beside
    assert len(request) == 200 * MB
