"""Memory of the process: the exact reading, its fallback, and the counters."""

from __future__ import annotations

from pathlib import Path

from edgeserve.system import process
from edgeserve.system.readings import ProcessMemory

ROLLUP = "0-1 ---p 0 00:00 0 [rollup]\nPss: 300 kB\nPss_Anon: 200 kB\nPss_File: 100 kB\n"
STATUS = "Name:\tx\nVmRSS:\t 330 kB\nRssAnon:\t 210 kB\nRssFile:\t 120 kB\n"
EXACT = ProcessMemory(anon=200 << 10, file=100 << 10, total=300 << 10)
COUNTED = ProcessMemory(anon=210 << 10, file=120 << 10, total=330 << 10)


def test_the_exact_reading_is_the_proportional_share(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "smaps_rollup").write_text(ROLLUP)
    (tmp_path / "self" / "status").write_text(STATUS)
    assert process.read(tmp_path, "linux") == EXACT
    assert process.read_counters(tmp_path) == COUNTED


def test_a_kernel_without_the_rollup_is_read_by_its_counters(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text(STATUS)
    assert process.read(tmp_path, "linux") == COUNTED


def test_a_mac_is_read_by_its_unique_set() -> None:
    found = process.read(platform="darwin")
    assert found.anon > 0
    assert found.total >= found.anon
