"""The C heap: what is freed goes back, and the figures add up; elsewhere than on glibc nothing breaks."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from edgeserve.system import heap, pages
from edgeserve.system.probe import Probe

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")


@glibc
def test_the_figures_follow_an_allocation() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    before = heap.usage()
    block = libc.malloc(ctypes.c_size_t(5 << 20))
    during = heap.usage()
    libc.free(ctypes.c_void_p(block))
    assert before is not None
    assert during is not None
    assert during.allocated - before.allocated >= 5 << 20
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
@pytest.mark.parametrize("trim", [heap.trim, pages.trim_heap], ids=["server", "engines"])
def test_trimming_forgets_the_names_of_attributes(trim: Callable[[], object]) -> None:
    """CPython keeps the last name that it looked up for a slot of its cache, and with it a page of the heap."""
    names = [f"no_such_attribute_{number}" for number in range(64)]
    before = sum(map(sys.getrefcount, names))
    assert not any(hasattr(heap, name) for name in names)
    assert sum(map(sys.getrefcount, names)) > before
    trim()
    assert sum(map(sys.getrefcount, names)) == before


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_libc", lambda: object())
    heap.trim()
    assert heap.usage() is None


def test_large_blocks_return_when_they_are_freed() -> None:
    """In a process of its own, since the setting holds for all of it."""
    code = "from edgeserve.system import heap; print(heap.tune())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(hasattr(ctypes.CDLL(None), "mallopt"))
