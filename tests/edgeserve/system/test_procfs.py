"""Linux's figures of memory, from recorded files."""

from __future__ import annotations

from pathlib import Path

from edgeserve.system.procfs import parse_meminfo, parse_smaps_rollup, parse_stall, parse_status, read_stall
from edgeserve.system.readings import ProcessMemory, Stall

KB = 1024
ROLLUP = """\
55a9ca54e000-7ffdeded8000 ---p 00000000 00:00 0                          [rollup]
Rss:              204800 kB
Pss:              150000 kB
Pss_Dirty:         90112 kB
Pss_Anon:          90000 kB
Pss_File:          59000 kB
Pss_Shmem:          1000 kB
Shared_Clean:      54800 kB
Anonymous:         91000 kB
SwapPss:               0 kB
"""
STATUS = """\
Name:\tpython
VmPeak:\t 2345678 kB
VmRSS:\t  204800 kB
RssAnon:\t   91000 kB
RssFile:\t  112800 kB
RssShmem:\t    1000 kB
Threads:\t7
"""
MEMINFO = """\
MemTotal:       24684084 kB
MemFree:        20109876 kB
MemAvailable:   23560516 kB
Active(anon):     123456 kB
HugePages_Total:       0
"""
PRESSURE = """\
some avg10=12.34 avg60=5.00 avg300=1.00 total=123456
full avg10=3.21 avg60=1.00 avg300=0.50 total=45678
"""


def test_the_rollup_divides_anonymous_and_mapped_memory() -> None:
    read = parse_smaps_rollup(ROLLUP)
    assert read == ProcessMemory(anon=90000 * KB, file=59000 * KB, total=150000 * KB)
    assert read.own == 91000 * KB, "shared memory is no more droppable than anonymous memory"


def test_an_older_kernel_counts_anonymous_pages_in_full() -> None:
    old = "\n".join(line for line in ROLLUP.splitlines() if not line.startswith("Pss_"))
    assert parse_smaps_rollup(old) == ProcessMemory(anon=91000 * KB, file=59000 * KB, total=150000 * KB)


def test_the_counters_of_status() -> None:
    assert parse_status(STATUS) == ProcessMemory(anon=91000 * KB, file=112800 * KB, total=204800 * KB)


def test_total_and_available() -> None:
    assert parse_meminfo(MEMINFO) == (24684084 * KB, 23560516 * KB)


def test_stalls() -> None:
    assert parse_stall(PRESSURE) == Stall(some=12.34, full=3.21)


def test_a_kernel_without_stalls(tmp_path: Path) -> None:
    assert read_stall(tmp_path / "pressure") is None
