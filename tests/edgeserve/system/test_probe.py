"""The probe on recorded roots, on a simulated machine and on this machine; and its thread."""

from __future__ import annotations

import logging
import mmap
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import Clock
from support.memory import readings

from edgeserve.system import process
from edgeserve.system.probe import Probe, simulate
from edgeserve.system.readings import Accelerator, GroupLimit, ProcessMemory, Stall, SystemPressure
from edgeserve.units import MB

ROLLUP = "0-1 ---p 0 00:00 0 [rollup]\nPss: 300 kB\nPss_Anon: 200 kB\nPss_File: 100 kB\n"
STATUS = "Name:\tx\nVmRSS:\t 330 kB\nRssAnon:\t 210 kB\nRssFile:\t 120 kB\n"


class Unread:
    """An accelerator that must not be read."""

    def read(self) -> Accelerator:
        raise AssertionError("read")

    def clear_cache(self) -> None: ...


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    files = {
        "proc/meminfo": f"MemTotal: {8 << 20} kB\nMemAvailable: {6 << 20} kB\n",
        "proc/self/smaps_rollup": ROLLUP,
        "proc/self/status": STATUS,
        "proc/self/cgroup": "0::/box\n",
        "proc/pressure/memory": "some avg10=1.00 avg60=0\nfull avg10=0.50 avg60=0\n",
        "cg/box/memory.max": f"{1 << 30}\n",
        "cg/box/memory.current": f"{1 << 29}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def probe(root: Path, **settings: Any) -> Probe:
    settings.setdefault("platform", "linux")
    return Probe(proc=root / "proc", cgroups=root / "cg", **settings)


def test_a_linux_box_inside_a_group(linux: Path) -> None:
    read = probe(linux).read()
    assert (read.machine_total, read.machine_available) == (8 << 30, 6 << 30)
    assert (read.total, read.available) == (1 << 30, 1 << 29)
    assert read.process == ProcessMemory(anon=200 << 10, file=100 << 10, total=300 << 10)
    assert read.stall == Stall(some=1.0, full=0.5)
    assert read.accelerator == Accelerator()


def test_a_quick_reading_walks_no_pages(linux: Path) -> None:
    (linux / "proc/self/smaps_rollup").unlink()
    assert probe(linux).read_quick().process == ProcessMemory(anon=210 << 10, file=120 << 10, total=330 << 10)
    assert probe(linux).read().process.anon == 210 << 10, "a kernel without the rollup reads the counters too"


def test_stalls_of_our_own_group_come_first(linux: Path) -> None:
    (linux / "cg/box/memory.pressure").write_text("some avg10=9.00 avg60=0\nfull avg10=8.00 avg60=0\n")
    assert probe(linux).read().stall == Stall(some=9.0, full=8.0)


def test_a_kernel_without_stalls(linux: Path) -> None:
    (linux / "proc/pressure/memory").unlink()
    assert probe(linux).read().stall is None


class Mac:
    """Output of the commands of a 16 GB Mac whose GPU may take ``wired_limit`` MB."""

    def __init__(self) -> None:
        self.level = 1
        self.wired_limit: int | None = 0
        self.count = 0

    def __call__(self, command: Sequence[str]) -> str:
        self.count += 1
        if command[0] == "vm_stat":
            return (
                "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free: 100.\nPages speculative: 10.\n"
                "Pages purgeable: 1.\nFile-backed pages: 1000.\nPages inactive: 5000.\n"
            )
        limit = "" if self.wired_limit is None else f"iogpu.wired_limit_mb: {self.wired_limit}\n"
        return f"hw.memsize: {16 << 30}\nkern.memorystatus_vm_pressure_level: {self.level}\n{limit}"


def test_a_mac(tmp_path: Path) -> None:
    commands = Mac()
    mac = probe(tmp_path, platform="darwin", run=commands)
    assert mac.read().total == 16 << 30
    assert mac.read().available == 1101 * 16384
    assert mac.read().process.total > 0
    assert commands.count == 6
    commands.level = 4
    assert mac.read().system_pressure is SystemPressure.CRITICAL
    assert mac.read().available == 110 * 16384


def test_before_a_runtime_reports_it_the_gpu_of_a_mac_has_its_working_set(tmp_path: Path) -> None:
    commands = Mac()
    mac = probe(tmp_path, platform="darwin", run=commands)
    assert mac.read().accelerator == Accelerator(recommended=(16 << 30) * 2 // 3, unified=True)
    commands.wired_limit = 14000
    assert mac.read().accelerator.recommended == 14000 * MB, "read anew, as it may be set at any time"
    commands.wired_limit = None
    assert mac.read().accelerator == Accelerator()


def test_the_figures_of_a_runtime_come_before_the_systems_advice(tmp_path: Path) -> None:
    commands, gpu = Mac(), Accelerator("metal", 11 << 30, 9 << 30, active=2 << 30, recommended=11 << 30, unified=True)
    mac = probe(tmp_path, platform="darwin", run=commands, accelerator=FixedAccelerator(gpu))
    assert mac.read().accelerator == gpu


def test_the_gpu_of_a_smaller_mac_is_smaller(tmp_path: Path) -> None:
    commands, gpu = Mac(), Accelerator("metal", 12 << 30, 9 << 30, active=2 << 30, recommended=12 << 30, unified=True)
    assert probe(tmp_path, platform="darwin", run=commands, override_mb=8192).read().accelerator.recommended == int(
        (8 << 30) * 2 / 3
    )
    small = probe(tmp_path, platform="darwin", run=commands, override_mb=8192, accelerator=FixedAccelerator(gpu))
    assert small.read().accelerator.recommended == 6 << 30
    large = probe(tmp_path, platform="darwin", run=commands, override_mb=65536, accelerator=FixedAccelerator(gpu))
    assert large.read().accelerator.recommended == 12 << 30


class FixedAccelerator:
    """An accelerator with fixed figures."""

    def __init__(self, figures: Accelerator) -> None:
        self.figures = figures

    def read(self) -> Accelerator:
        return self.figures

    def clear_cache(self) -> None: ...


@pytest.mark.parametrize(("override", "total", "available"), [(512, 512, 511.8), (4096, 1024, 512)])
def test_a_smaller_machine_can_be_simulated(linux: Path, override: int, total: int, available: float) -> None:
    read = probe(linux, override_mb=override).read()
    assert probe(linux, override_mb=override, accelerator=Unread()).machine() == read.total
    assert read.total == total * MB
    assert read.available / MB == pytest.approx(min(available, 512), abs=0.1)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 36), st.integers(1, 1 << 40))
def test_a_simulated_machine_is_never_larger(total: int, available: int, anon: int, wanted: int) -> None:
    real = readings(total, min(total, available), anon, group=GroupLimit(total // 2, available // 2))
    small = simulate(real, wanted)
    assert small.total <= min(real.total, wanted)
    assert small.available <= min(real.available, max(0, wanted - anon))


def test_an_old_latest_reading_is_replaced(linux: Path) -> None:
    clock = Clock()
    one = probe(linux, clock=clock)
    first = one.latest()
    clock.now += 2.0
    assert one.latest() is first
    clock.now += 0.1
    assert one.latest() is not first


def test_the_thread_alone_replaces_what_is_known(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command has no such thread: its answers looked at the memory of the time before them."""
    clock = Clock()
    one = probe(linux, clock=clock)
    first = one.known()
    clock.now += 2.1
    second = one.known()
    assert second is not first
    monkeypatch.setattr(one, "_loop", lambda then: None)
    one.start()
    clock.now += 100.0
    assert one.known() is second
    one.stop()
    assert one.known() is not second


def test_the_first_reading_is_known_as_soon_as_somebody_asks(linux: Path) -> None:
    one = probe(linux)
    assert one.known() is one.known()


class Counting:
    """An accelerator that counts its readings."""

    def __init__(self) -> None:
        self.seen = threading.Semaphore(0)
        self.fails = False

    def read(self) -> Accelerator:
        self.seen.release()
        if self.fails:
            raise OSError("the driver is gone")
        return Accelerator("cuda", total=1)

    def clear_cache(self) -> None: ...


def test_the_thread_reads_until_it_is_stopped(linux: Path) -> None:
    card = Counting()
    one = probe(linux, interval=0.001, accelerator=card)
    before, told = set(threading.enumerate()), threading.Event()
    one.start(told.set)
    for _ in range(3):
        assert card.seen.acquire(timeout=10)
    assert told.wait(10)
    one.stop()
    while card.seen.acquire(blocking=False):
        pass
    assert one.latest().accelerator.name == "cuda"
    assert set(threading.enumerate()) <= before


def test_a_failed_reading_is_logged_and_does_not_end_the_thread(linux: Path, caplog: pytest.LogCaptureFixture) -> None:
    card = Counting()
    card.fails = True
    one = probe(linux, interval=0.001, accelerator=card)
    with caplog.at_level(logging.ERROR):
        one.start()
        for _ in range(3):
            assert card.seen.acquire(timeout=10)
        one.stop()
    assert "memory could not be read; the next reading is in 0.001 s" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_readings_of_this_machine_follow_an_allocation() -> None:
    one = Probe()
    before = one.read()
    size = 32 * MB
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for page in range(0, size, mmap.PAGESIZE):
            block[page] = 1
        exact, quick = one.read(), one.read_quick()
    after = one.read()
    assert exact.process.anon - before.process.anon == pytest.approx(size, rel=0.1)
    assert quick.process.anon - before.process.anon == pytest.approx(size, rel=0.2)
    assert exact.process.anon - after.process.anon == pytest.approx(size, rel=0.1)
    assert 0 < before.available <= before.total


@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_a_quick_reading_counts_no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting the pages of a process takes 17 ms for each GB."""

    def count(proc: Path, platform: str) -> None:
        raise AssertionError("the probe counts pages")

    monkeypatch.setattr(process, "read", count)
    assert Probe().read_quick().process.own > 0
