"""Waits, the work ahead of them, and switches, from clients and the log."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.turns import Asked
from benchmarks.turns_report import Run, Switch, ahead, page_in, switches, write

BEGAN = 1_700_000_000.0


def line(at: float, message: str) -> Mapping[str, Any]:
    time = datetime.datetime.fromtimestamp(BEGAN + at, datetime.UTC)
    return {"ts": time.strftime("%Y-%m-%dT%H:%M:%S") + f".{time.microsecond // 1000:03d}Z", "msg": message}


def asked(model: str, sent: float, first: float, end: float, status: int = 200) -> Asked:
    return Asked(model, BEGAN + sent, BEGAN + first, BEGAN + end, status)


def run_of(*requests: Asked, lines: tuple[Mapping[str, Any], ...] = ()) -> Run:
    alone = {"large": 0.1, "small": 0.1, "asr": 0.1, "tts": 0.1}
    return Run("a group", 60.0, requests, alone, lines, BEGAN, {"large": 0.2}, 1.0)


LINES = (
    line(5.2, "Offloaded llm:large from hot to warm, memory needed (freed 1.0 MB of 1.0 MB expected)"),
    line(5.9, "whisper-tiny.en went from COLD to HOT in 0.50 s"),
    line(7.0, "small went from WARM to HOT in 0.10 s"),
)


def test_a_switch_begins_when_the_last_answer_in_the_way_has_ended() -> None:
    run = run_of(asked("large", 0, 0.2, 5.0), asked("asr", 1.0, 6.0, 6.1), lines=LINES)
    [found] = switches(run)
    assert (found.model, found.climb) == ("asr", 0.5)
    assert found.seconds == pytest.approx(0.9, abs=0.002)


def test_a_switch_for_which_nobody_has_to_be_waited_begins_with_its_request() -> None:
    run = run_of(asked("large", 0, 0.2, 1.0), asked("asr", 5.1, 6.0, 6.1), lines=LINES)
    assert switches(run)[0].seconds == pytest.approx(0.8, abs=0.002)


def test_ahead_are_earlier_requests_and_switches_not_later_ones() -> None:
    first, late = asked("large", 0, 0.5, 4.0), asked("large", 2.0, 4.0, 6.0)
    waiting = asked("small", 1.0, 7.0, 8.0)
    run = run_of(first, late, waiting)
    [_, _, (waited, work)] = ahead(run, [Switch("small", BEGAN + 6.0, BEGAN + 6.5, 0.3)])
    assert waited == pytest.approx(6.0)
    assert work == pytest.approx(0.1 + 3.0 + 0.5)


def test_a_model_is_at_work_from_its_way_up_on_not_from_its_first_byte() -> None:
    """The prompt of the other is read meanwhile."""
    other, waiting = asked("small", 0, 9.0, 10.0), asked("asr", 1.0, 10.5, 11.0)
    [_, (_, work)] = ahead(run_of(other, waiting, lines=LINES), [])
    assert work == pytest.approx(0.1 + 3.0)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (507, 0), (503, 1)])
def test_refusals_miss_the_target_unless_a_model_never_fits(status: int, code: int) -> None:
    requests = [asked("large", 0, 0.1, 5.0), asked("asr", 1.0, 6.0, 6.1), asked("tts", 1.0, 1.1, 1.1, status)]
    assert write(run_of(*requests, lines=LINES), trial=True) == code


def test_a_file_is_read_from_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(bytes(1000))
    assert page_in(file) > 0
