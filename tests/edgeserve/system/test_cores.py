"""Cores that the process may use: affinity, control groups' quotas, and the engines' own limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgeserve.system import cores


@pytest.mark.parametrize("allowed", [1, 2, 3, 5, 64])
def test_affinity_limits_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(40, 40 + allowed)), raising=False)
    assert cores.usable(tmp_path, tmp_path) == allowed


@pytest.mark.parametrize(("count", "usable"), [(6, 6), (None, 1)])
def test_all_cores_count_on_a_system_without_affinity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None, usable: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert cores.usable(tmp_path, tmp_path) == usable


@pytest.mark.parametrize(("quota", "usable"), [("max", 8), ("150000", 2), ("200000", 2), ("5000", 1), ("6400000", 8)])
def test_a_quota_limits_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, usable: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")
    assert cores.usable(tmp_path, tmp_path) == usable


@pytest.mark.parametrize(("usable", "threads"), [(1, 1), (4, 4), (16, 4)])
def test_an_engine_takes_the_usable_cores_up_to_its_limit(
    monkeypatch: pytest.MonkeyPatch, usable: int, threads: int
) -> None:
    monkeypatch.setattr(cores, "usable", lambda: usable)
    assert cores.default_threads(4) == threads
