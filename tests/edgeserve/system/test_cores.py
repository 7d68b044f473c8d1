from __future__ import annotations

import os

import pytest

from edgeserve.system import cores
from engines.llama import context
from engines.onnx import session


@pytest.mark.parametrize("usable", [1, 2, 3, 5, 64])
def test_threads_are_those_that_the_process_may_run_on(monkeypatch: pytest.MonkeyPatch, usable: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(40, 40 + usable)), raising=False)
    assert cores.usable() == usable
    assert context.default_threads() == min(8, usable)
    assert session.default_threads() == min(4, usable)


@pytest.mark.parametrize(("told", "usable"), [(6, 6), (None, 1)])
def test_where_the_system_tells_no_affinity_all_count(
    monkeypatch: pytest.MonkeyPatch, told: int | None, usable: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: told)
    assert cores.usable() == usable
