"""Pages of a mapped file on this machine: counted, dropped and populated; and the private bytes of the process."""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeserve.system import libc, pages, smaps
from edgeserve.units import MB

SIZE = 4 * MB
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its mappings")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def mapped(model: Path) -> Iterator[mmap.mmap]:
    """The file as runtimes map it: private, for reading and writing."""
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as region:
        yield region


def touch(region: mmap.mmap) -> int:
    return sum(region[at] for at in range(0, SIZE, mmap.PAGESIZE))


@linux
def test_resident_pages_are_counted_and_dropped(model: Path, mapped: mmap.mmap) -> None:
    before = touch(mapped)
    assert pages.resident_mapped(model) == SIZE
    assert pages.drop_mapped(model) == SIZE
    assert pages.resident_mapped(model) == 0
    assert touch(mapped) == before, "page faults bring the same bytes back"


@linux
def test_all_pages_are_populated_at_once(model: Path, mapped: mmap.mmap) -> None:
    pages.drop_mapped(model)
    pages.populate_mapped(model)
    assert pages.resident_mapped(model) == SIZE


@linux
def test_pages_that_are_mapped_twice_are_populated_and_count_once(model: Path, mapped: mmap.mmap) -> None:
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE):
        pages.drop_mapped(model)
        assert pages.begin_populating(model)() == SIZE == pages.resident_mapped(model)


@linux
def test_a_range_that_was_written_to_is_not_dropped(model: Path, mapped: mmap.mmap) -> None:
    touch(mapped)
    mapped[0] = (mapped[0] + 1) % 256
    changed = mapped[0]
    assert pages.drop_mapped(model) == 0
    assert mapped[0] == changed


@linux
def test_an_unmapped_file_has_no_pages(model: Path) -> None:
    assert list(pages.mappings(model)) == []
    assert pages.resident_mapped(model) == pages.drop_mapped(model) == 0


def test_a_system_without_listings_has_no_pages(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smaps, "MAPS", tmp_path / "none")
    monkeypatch.setattr(smaps, "SMAPS", tmp_path / "none")
    assert pages.resident_mapped(model) == pages.drop_mapped(model) == 0
    pages.populate_mapped(model)


@linux
def test_an_older_kernel_is_advised_in_its_own_words(
    model: Path, mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def advise(start: int, size: int, advice: int) -> bool:
        given.append(advice)
        return advice != libc.POPULATE_READ

    monkeypatch.setattr(libc, "advise", advise)
    assert pages.begin_populating(model)() == 0, "advice promises nothing"
    assert given == [libc.POPULATE_READ, libc.WILLNEED]


@linux
def test_the_kernel_refuses_advice_on_addresses_that_are_not_mapped() -> None:
    assert not libc.advise(mmap.PAGESIZE, mmap.PAGESIZE, libc.DONTNEED)


@linux
def test_private_bytes_follow_an_allocation() -> None:
    before = pages.private_bytes()
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as region:
        region.write(bytes(SIZE))
        assert pages.private_bytes() - before == pytest.approx(SIZE, rel=0.2)


@linux
def test_the_counters_follow_an_allocation_too() -> None:
    before = pages.private_bytes_now()
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as region:
        region.write(bytes(SIZE))
        assert pages.private_bytes_now() - before == pytest.approx(SIZE, rel=0.3)


@linux
def test_pieces_of_a_large_range_are_all_populated(
    model: Path, mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PIECE", 5 * mmap.PAGESIZE)
    pages.drop_mapped(model)
    finish = pages.begin_populating(model)
    assert finish() == SIZE
    assert pages.resident_mapped(model) == SIZE
    finish()


@linux
def test_the_caller_populates_where_the_system_has_no_threads(
    model: Path, mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pages.drop_mapped(model)
    pages.populate_mapped(model)
    assert pages.resident_mapped(model) == SIZE
