"""The memory of all processes of the server together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgeserve.system import process
from edgeserve.system.family import Family
from edgeserve.system.readings import ProcessMemory
from edgeserve.units import KB


def write(proc: Path, pid: str, anon: int, file: int, *, shared: int = 0, exact: bool = True) -> None:
    """Figures of one process in kB; ``shared`` of its anonymous pages belong to others too, and count half."""
    folder = proc / pid
    folder.mkdir(exist_ok=True)
    (folder / "status").write_text(f"VmRSS:\t {anon + file} kB\nRssAnon:\t {anon} kB\nRssFile:\t {file} kB\n")
    own, half = anon - shared // 2, file // 2
    rollup = f"Pss: {own + half} kB\nPss_Anon: {own} kB\nPss_File: {half} kB\n"
    (folder / "smaps_rollup").write_text(rollup if exact else "")


def kb(anon: int, file: int) -> ProcessMemory:
    return ProcessMemory(anon * KB, file * KB, (anon + file) * KB)


def test_an_exact_reading_is_the_sum_of_all_proportional_shares(tmp_path: Path) -> None:
    write(tmp_path, "self", 100, 40)
    write(tmp_path, "7", 50, 20, shared=10)
    write(tmp_path, "8", 30, 0)
    assert Family(lambda: [7, 8], tmp_path, "linux").read() == kb(100 + 45 + 30, 20 + 10)


def test_a_quick_reading_leaves_out_what_a_worker_shares(tmp_path: Path) -> None:
    family = Family(lambda: [7], tmp_path, "linux")
    write(tmp_path, "self", 100, 40)
    write(tmp_path, "7", 50, 20, shared=10)
    assert family.read_quick() == kb(100 + 45, 40 + 10)  # a worker that is new is read exactly
    write(tmp_path, "7", 90, 20, shared=90, exact=False)  # would fail if it were read exactly again
    assert family.read_quick() == kb(100 + 85, 40 + 10)


def test_processes_that_serve_one_request_each_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "self", 100, 40)
    write(tmp_path, "7", 50, 20)
    write(tmp_path, "8", 30, 4)
    found = Family(lambda: [7, 8], tmp_path, "linux", helpers=lambda: [8, 9]).read_quick()
    assert (found.anon, found.helpers) == (180 * KB, 30 * KB)
    assert found.workers == {7: 50 * KB}


def test_a_process_that_ends_during_the_reading_still_counts_as_one_of_a_request(tmp_path: Path) -> None:
    """It counted as the server's own, and others were refused for it."""
    write(tmp_path, "self", 100, 40)
    write(tmp_path, "8", 30, 4)
    running = [8]

    def workers() -> list[int]:
        return [running.pop()]

    assert Family(workers, tmp_path, "linux", helpers=lambda: tuple(running)).read_quick().helpers == 30 * KB


def test_a_worker_that_has_ended_counts_nothing(tmp_path: Path) -> None:
    write(tmp_path, "self", 100, 40)
    assert Family(lambda: [7], tmp_path, "linux").read_quick() == kb(100, 40)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tpython\nState:\tZ (zombie)\n")
    assert Family(lambda: [7], tmp_path, "linux").read() == kb(100, 20)


def test_a_mac_reads_unique_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {None: kb(3, 2), 7: kb(2, 1)}

    def read(pid: int | None = None) -> ProcessMemory:
        if pid not in sets:
            raise ProcessLookupError
        return sets[pid]

    monkeypatch.setattr(process, "read_unique", read)
    assert Family(lambda: [7, 8], platform="darwin").read() == kb(5, 3)


class Pid(int):
    """A pid of a worker. Looking it up lets another thread read, after all workers have ended."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def __hash__(self) -> int:
        Pid.meanwhile()
        return int(self)


def test_workers_may_end_while_another_thread_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "self", 100, 40)
    write(tmp_path, "7", 50, 20, shared=10)
    workers: list[int] = [Pid(7)]
    family = Family(lambda: workers, tmp_path, "linux")
    family.read_quick()

    def another() -> None:
        monkeypatch.setattr(Pid, "meanwhile", staticmethod(lambda: None))
        workers.clear()
        family.read_quick()

    monkeypatch.setattr(Pid, "meanwhile", staticmethod(another))
    assert family.read_quick() == kb(100 + 45, 40 + 10)
