"""The measurement itself, on an injected clock and with an engine that has no runtime."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from support.memory import readings

from edgeserve.engine import ModelSpec
from edgeserve.fit import trial
from edgeserve.units import MB

FAKE = ModelSpec("llm", "fake", "edgeserve.engines.fake.chat:FakeChat")


def test_the_fastest_product_counts_for_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SIDE", 8)
    steps = itertools.cycle([0.0, 2.0, 2.0, 3.0, 3.0, 8.0])
    now = 0.0

    def clock() -> float:
        nonlocal now
        now = next(steps)
        return now

    assert trial.operations(3, clock) == 3 * 2 * trial.SIDE**3 / 1.0


def test_the_fastest_run_of_tokens_counts() -> None:
    steps = itertools.cycle([5.0] * 10 + [1.0] * 30)
    now = itertools.accumulate(steps)
    assert trial.seconds_of_token(FAKE, lambda: next(now)) == 1.0


def test_an_answer_without_enough_tokens_times_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TOKENS", trial.WINDOW)
    assert trial.seconds_of_token(FAKE) == float("inf")


def test_the_figures_are_those_that_the_parent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(trial.bandwidth, "measure", lambda threads, size: sizes.append(size) or 5.0)
    monkeypatch.setattr(trial, "operations", lambda threads: 6.0)
    seen: list[ModelSpec] = []
    monkeypatch.setattr(trial, "seconds_of_token", lambda spec, *clock: seen.append(spec) or 6.0 + len(seen))
    assert trial.main({}) == {"bandwidth": 5.0, "operations": 6.0}
    given = json.loads('{"job": "llm", "name": "m", "engine": "e:E", "files": {"model": "/m"}}')
    figures = {"bandwidth": 5.0, "operations": 6.0, "token_seconds": 7.0, "token_seconds_alone": 8.0}
    assert trial.main(given) == figures
    assert 0 < max(sizes) <= trial.bandwidth.SIZE
    assert [(one.files, one.threads) for one in seen] == [({"model": Path("/m")}, None), ({"model": Path("/m")}, 1)]


def test_a_small_box_gives_a_quarter_of_its_memory_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(trial.bandwidth, "measure", lambda threads, size: sizes.append(size) or 5.0)
    monkeypatch.setattr(trial, "operations", lambda threads: 6.0)
    monkeypatch.setattr(trial.Probe, "read_quick", lambda self: readings(400 * MB))
    trial.main({})
    assert sizes == [100 * MB]
