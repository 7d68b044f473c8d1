"""Copies and the memory that is available, of the machine and of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.system import headroom
from edgeserve.system.headroom import LARGE, NoRoom
from edgeserve.units import MB


def machine(root: Path, available_mb: int, group_mb: int | None = None) -> tuple[Path, Path]:
    """Roots of /proc and of the control groups. ``group_mb``: the limit of a group that has used half of it."""
    proc, groups = root / "proc", root / "cgroup"
    (proc / "self").mkdir(parents=True)
    groups.mkdir()
    text = f"MemTotal: {8 << 20} kB\nMemAvailable: {available_mb << 10} kB\n"
    (proc / "meminfo").write_text(text, encoding="ascii")
    if group_mb is not None:
        (proc / "self" / "cgroup").write_text("0::/\n", encoding="ascii")
        (groups / "memory.max").write_text(f"{group_mb * MB}\n", encoding="ascii")
        (groups / "memory.current").write_text(f"{group_mb * MB // 2}\n", encoding="ascii")
        (groups / "memory.stat").write_text("inactive_file 0\nactive_file 0\n", encoding="ascii")
    return proc, groups


@pytest.mark.parametrize(("group_mb", "expected_mb"), [(None, 2000), (1000, 500), (100_000, 2000)])
def test_the_tighter_of_machine_and_group_counts(tmp_path: Path, group_mb: int | None, expected_mb: int) -> None:
    assert headroom.available(*machine(tmp_path, 2000, group_mb)) == expected_mb * MB


def test_a_system_that_does_not_say_forbids_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headroom.available(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB\n", encoding="ascii")
    assert headroom.available(tmp_path, tmp_path) is None
    monkeypatch.setattr(headroom, "available", lambda: None)
    headroom.check(1 << 50)


@pytest.mark.parametrize(("size_mb", "free_mb", "fits"), [(100, 400, True), (101, 400, False), (15, 0, True)])
def test_a_copy_takes_a_quarter_of_what_is_available_at_most(
    size_mb: int, free_mb: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headroom, "available", lambda: free_mb * MB)
    assert LARGE > 15 * MB
    if fits:
        headroom.check(size_mb * MB)
    else:
        with pytest.raises(NoRoom, match="101 MB are more than a quarter of the 400 MB"):
            headroom.check(size_mb * MB)
