"""The simulated boxes of the placement benchmark: memory, queues, and the same trace for each rule."""

from __future__ import annotations

import random

import pytest
from benchmarks import placement
from benchmarks.placement_boxes import LOAD_RATE, LOAD_START, QUEUE, Box, Model, Outcome, Request, Run

SMALL, LARGE = Model("small", 400, 1.0, 1), Model("large", 800, 1.0, 1)
LOAD = LOAD_START + 400 / LOAD_RATE


def played(requests: list[Request], budget: int = 1000) -> tuple[Outcome, Box]:
    box = Box("box", budget, [SMALL, LARGE])
    return Run([box], lambda request: 0).play(iter(requests)), box


def asks(model: Model, *times: float, work: float = 1.0) -> list[Request]:
    return [Request(number, at, model, work, number) for number, at in enumerate(times)]


def test_a_request_waits_for_the_load_and_for_the_one_before_it() -> None:
    outcome, _ = played(asks(SMALL, 0.0, 0.0))
    assert outcome.waits == [LOAD, LOAD + 1.0]
    assert (outcome.loads, outcome.refused) == (1, 0)


def test_an_idle_model_leaves_for_another() -> None:
    outcome, box = played([*asks(SMALL, 0.0), *asks(LARGE, 10.0), *asks(SMALL, 20.0)])
    assert (outcome.loads, box.used, box.connections) == (3, 400, 0)


def test_a_model_at_work_stays() -> None:
    outcome, _ = played([*asks(SMALL, 0.0, work=20.0), *asks(LARGE, 5.0)])
    assert outcome.waits[1] == pytest.approx(LOAD + 20.0 - 5.0 + LOAD_START + 800 / LOAD_RATE)


def test_refusals() -> None:
    outcome, _ = played(asks(LARGE, 0.0), budget=500)
    assert outcome.refused == 1
    outcome, _ = played(asks(SMALL, *[0.0] * (QUEUE + 3), work=5.0))
    assert outcome.refused == 3


def test_a_prefix_that_a_node_holds_saves_work() -> None:
    outcome, _ = played([Request(number, 0.0, SMALL, 2.0, 7) for number in range(3)])
    assert outcome.kept == 2
    assert outcome.waits == [LOAD, LOAD + 2.0, LOAD + 3.0]


def test_a_trace_is_the_same_for_each_rule() -> None:
    def made() -> list[Request]:
        dice = random.Random(3)
        return list(placement.trace("bursty", 2, placement.catalogue(dice), dice))

    assert made() == made()
    assert len(made()) == placement.REQUESTS[2]


@pytest.mark.slow
def test_ours_refuses_least_and_loads_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(placement.REQUESTS, 10, 600)
    rows = {rule: placement.measure("bursty", 10, rule) for rule in (*placement.RULES, placement.OURS)}
    ours = rows.pop(placement.OURS)
    assert all(ours.refused <= one.refused and ours.loads < one.loads for one in rows.values())
