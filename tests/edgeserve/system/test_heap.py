"""The C heap: freed blocks return to the system, the figures add up, and another C library is no error."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import platform
import subprocess
import sys

import pytest

from edgeserve.system import heap, libc
from edgeserve.system.probe import Probe

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")


@glibc
def test_the_figures_follow_an_allocation() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    before = heap.usage()
    block = libc.malloc(ctypes.c_size_t(256 << 20))  # untouched: it takes no memory
    during = heap.usage()
    libc.free(ctypes.c_void_p(block))
    assert before is not None
    assert during is not None
    assert during.allocated - before.allocated >= 200 << 20, "threads of other tests may free some of theirs meanwhile"
    assert during.reserved >= during.allocated


@glibc
@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_trimming_returns_small_blocks_to_the_system() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    blocks = [libc.malloc(ctypes.c_size_t(4096)) for _ in range(4096)]
    for block in blocks:
        libc.memset(block, 1, 4096)
    full = Probe().read().process.anon
    for block in blocks[:-1]:  # the last one keeps the heap's top in place
        libc.free(ctypes.c_void_p(block))
    heap.trim()
    assert full - Probe().read().process.anon > 8 << 20
    libc.free(ctypes.c_void_p(blocks[-1]))


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="the cache is CPython's")
def test_trimming_forgets_the_names_of_attributes() -> None:
    """Each slot of CPython's cache keeps the last name that was looked up, and with the name a page of the heap."""
    names = [f"no_such_attribute_{number}" for number in range(64)]
    before = sum(map(sys.getrefcount, names))
    assert not any(hasattr(heap, name) for name in names)
    assert sum(map(sys.getrefcount, names)) > before
    heap.trim()
    assert sum(map(sys.getrefcount, names)) == before


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libc, "library", lambda: object())
    heap.trim()
    assert heap.usage() is None


def test_garbage_is_collected_before_the_heap_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(heap.gc, "collect", lambda: steps.append("collect"))
    monkeypatch.setattr(heap, "trim", lambda: steps.append("trim"))
    heap.collect()
    assert steps == ["collect", "trim"]


@pytest.mark.skipif(sys.platform == "darwin", reason="the C library has the call")
def test_a_mac_returns_the_pages_of_its_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zones:
        called = 0

        def malloc_zone_pressure_relief(self, zone: object, goal: object) -> None:
            self.called += 1

    zones = Zones()
    monkeypatch.setattr(libc, "library", lambda: zones)
    monkeypatch.setattr(heap.sys, "platform", "darwin")
    heap.trim()
    assert zones.called == 1


def test_the_settings_are_taken() -> None:
    """In a process of its own, since a setting holds for the whole process."""
    code = "from edgeserve.system import heap; print(heap.tune())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(hasattr(ctypes.CDLL(None), "mallopt"))


OLD = """
import gc
from edgeserve.system import heap
if {frozen}: gc.freeze()
with heap.uncollected():
    made = [[] for _ in range(5000)]
print(any(one is made for one in gc.get_objects(generation=2)), gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize("frozen", [False, True])
def test_no_collection_looks_at_imported_objects_soon(frozen: bool) -> None:
    """In a process of its own. Objects that are exempt in a process that forks stay exempt."""
    ended = subprocess.run(
        [sys.executable, "-c", OLD.format(frozen=frozen)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == [str(not frozen), str(frozen)]


def test_collections_wait_during_imports() -> None:
    assert gc.isenabled()
    with contextlib.suppress(ImportError), heap.uncollected():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
    gc.disable()
    try:
        with heap.uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
