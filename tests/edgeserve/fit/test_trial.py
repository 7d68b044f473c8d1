"""The measurement itself, on an injected clock and with an engine that has no runtime."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from edgeserve.engine import ModelSpec
from edgeserve.fit import trial

FAKE = ModelSpec("llm", "fake", "engines.fake.chat:FakeChat")


def test_the_fastest_product_counts_for_every_thread() -> None:
    steps = itertools.cycle([0.0, 2.0, 2.0, 3.0, 3.0, 8.0])
    now = 0.0

    def clock() -> float:
        nonlocal now
        now = next(steps)
        return now

    assert trial.operations(3, clock) == 3 * 2 * trial.SIDE**3 / 1.0


def test_the_fastest_run_of_tokens_counts() -> None:
    steps = itertools.cycle([5.0] * 20 + [1.0] * 20)
    now = itertools.accumulate(steps)
    assert trial.seconds_of_token(FAKE, lambda: next(now)) == 1.0


def test_an_answer_without_enough_tokens_times_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TOKENS", trial.WINDOW)
    assert trial.seconds_of_token(FAKE) == float("inf")


def test_the_figures_are_those_that_the_parent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial.bandwidth, "measure", lambda threads: 5.0)
    monkeypatch.setattr(trial, "operations", lambda threads: 6.0)
    seen: list[ModelSpec] = []
    monkeypatch.setattr(trial, "seconds_of_token", lambda spec: seen.append(spec) or 7.0)
    assert trial.main({}) == {"bandwidth": 5.0, "operations": 6.0}
    given = json.loads('{"job": "llm", "name": "m", "engine": "e:E", "files": {"model": "/m"}}')
    assert trial.main(given) == {"bandwidth": 5.0, "operations": 6.0, "token_seconds": 7.0}
    assert seen == [ModelSpec("llm", "m", "e:E", {"model": Path("/m")})]
