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


@pytest.mark.parametrize(("usable", "fast", "threads"), [(1, 8, 1), (4, 8, 4), (16, 16, 4), (16, 2, 2)])
def test_an_engine_takes_the_usable_fast_cores_up_to_its_limit(
    monkeypatch: pytest.MonkeyPatch, usable: int, fast: int, threads: int
) -> None:
    monkeypatch.setattr(cores, "usable", lambda: usable)
    monkeypatch.setattr(cores, "fast", lambda: fast)
    assert cores.default_threads(4) == threads


@pytest.mark.parametrize("name", cores.SPEEDS)
@pytest.mark.parametrize(
    ("speeds", "fast"),
    [
        ([1024, 1024, 1024, 1024], 4),
        ([530, 530, 530, 530, 1024, 1024, 1024, 1024], 4),
        ([4900, 4900, 4700, 4700, 3600, 3600], 4),
    ],
)
def test_efficiency_cores_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, speeds: list[int], fast: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(len(speeds))), raising=False)
    for number, speed in enumerate(speeds):
        file = tmp_path / f"cpu{number}" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"{speed}\n")
    assert cores.fast(tmp_path) == fast
    assert all(speeds[one] >= cores.FAST_SHARE * max(speeds) for one in cores.fast_ones(tmp_path))


def test_all_cores_are_fast_where_the_system_tells_no_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    assert cores.fast(tmp_path) == 3
    (tmp_path / "cpu0").mkdir()
    (tmp_path / "cpu0" / "cpu_capacity").write_text("1024")
    assert cores.fast(tmp_path) == 3, "one core of three tells its speed"
