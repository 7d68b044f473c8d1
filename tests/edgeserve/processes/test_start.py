"""Tasks, and the steps of a fresh child that need no child to be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.processes import start
from edgeserve.processes.start import MESSAGE_BYTES, Task


def test_a_task_is_one_line_and_comes_back() -> None:
    task = Task("module:function", {"text": "\n\u00e9", "deep": [1, None]}, "llm")
    line = task.encode()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Task.decode(line) == task


def test_a_task_has_a_longest_form() -> None:
    room = MESSAGE_BYTES - len(Task("m:f", {"text": ""}, "llm").encode())
    assert len(Task("m:f", {"text": "x" * room}, "llm").encode()) == MESSAGE_BYTES
    with pytest.raises(ValueError, match="arguments of llm take 131,073 bytes; at most 131,072"):
        Task("m:f", {"text": "x" * (room + 1)}, "llm").encode()


@pytest.mark.parametrize(
    ("before", "after"), [("0\n", "500"), ("-900\n", "-400"), ("700\n", "1000"), ("1000\n", "1000")]
)
def test_the_oom_score_rises_by_500_to_1000_at_most(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "oom_score_adj"
    path.write_text(before)
    assert start.raise_oom_score(500, str(path))
    assert path.read_text()[: len(after)] == after


def test_a_system_without_oom_scores_is_no_error(tmp_path: Path) -> None:
    assert not start.raise_oom_score(500, str(tmp_path / "missing"))
