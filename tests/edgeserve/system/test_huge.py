"""Huge pages for memory of a library: new ranges found beside the work, and what the kernel gives here."""

from __future__ import annotations

import mmap
import sys
import threading
from pathlib import Path

import pytest
from support.cases import each

from edgeserve.system import huge, libc
from edgeserve.units import MB

ADVICE, ALWAYS = "always [madvise] never\n", "[always] madvise never\n"
MAPS = """\
1000-3000 rw-p 00000000 00:00 0
5000-6000 r--p 00000000 00:00 0
7000-8000 rw-p 00000000 00:00 0 [heap]
9000-a000 rw-p 00000000 fe:00 123 /lib/x.so
b000-c000 rw-p 00000000 00:00 0
"""


def test_anonymous_ranges_are_writable_and_have_no_name() -> None:
    assert list(huge.anonymous(MAPS)) == [(0x1000, 0x3000), (0xB000, 0xC000)]


@each(
    ("now", "known", "new"),
    [
        ([(10, 20)], [], [(10, 20)]),
        ([(10, 20)], [(10, 20)], []),
        ([(5, 20)], [(10, 20)], [(5, 10)]),
        ([(10, 30)], [(10, 20)], [(20, 30)]),
        ([(5, 40)], [(30, 32), (10, 20)], [(5, 10), (20, 30), (32, 40)]),
        ([(10, 20)], [(5, 30)], []),
        ([(10, 20), (50, 60)], [(20, 50)], [(10, 20), (50, 60)]),
    ],
)
def test_new_parts_are_those_that_nothing_known_covers(
    now: list[huge.Range], known: list[huge.Range], new: list[huge.Range]
) -> None:
    assert list(huge.new_parts(now, known)) == new


@pytest.mark.parametrize(("text", "found"), [(ADVICE, True), (ALWAYS, False), ("always madvise [never]", False)])
def test_the_kernel_says_when_advice_matters(tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / "enabled").write_text(text)
    assert huge.on_advice(tmp_path / "enabled") is found
    assert not huge.on_advice(tmp_path / "none")


def test_large_new_ranges_are_advised_once_while_the_block_runs(tmp_path: Path) -> None:
    enabled, maps, new = tmp_path / "enabled", tmp_path / "maps", tmp_path / "maps.new"
    enabled.write_text(ADVICE)
    maps.write_text(MAPS)
    given: list[tuple[int, int, int]] = []
    seen = threading.Event()

    def advise(start: int, size: int, advice: int) -> None:
        given.append((start, size, advice))
        seen.set()

    base = 0x7F0000000000
    with huge.asked_for(enabled, maps, advise):
        lines = [
            f"{base:x}-{base + huge.LEAST:x} rw-p 00000000 00:00 0",
            f"{base * 2:x}-{base * 2 + 4096:x} rw-p 0 0:0 0",
        ]
        new.write_text(MAPS + "\n".join(lines) + "\n")
        new.replace(maps)
        assert seen.wait(10)
    assert given == [(base, huge.LEAST, libc.HUGEPAGE)]
    assert not any(one.name == "edgeserve-huge" for one in threading.enumerate())


def test_nothing_is_read_where_advice_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text(ALWAYS)
    with huge.asked_for(tmp_path / "enabled", tmp_path / "none"):
        pass


def test_a_system_without_threads_keeps_small_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    (tmp_path / "enabled").write_text(ADVICE)
    (tmp_path / "maps").write_text(MAPS)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with huge.asked_for(tmp_path / "enabled", tmp_path / "maps"):
        pass


@pytest.mark.skipif(
    sys.platform != "linux" or not huge.on_advice(huge.ENABLED), reason="this kernel gives no huge pages on advice"
)
def test_the_kernel_takes_the_advice_on_this_machine() -> None:
    with mmap.mmap(-1, 4 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as region:
        import ctypes

        first = ctypes.c_char.from_buffer(region)
        address = ctypes.addressof(first)
        del first
        assert libc.advise(address, 4 * MB, libc.HUGEPAGE)
