"""Cores for the thread that calls a runtime, and for the runtime's own threads."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Collection

import pytest
from support.cases import each

from edgeserve.system import apart, cores, libc

linux = pytest.mark.skipif(sys.platform != "linux", reason="threads have cores of their own on Linux alone")


class Kernel:
    """The cores of one thread; it runs on the first of those that it may use when it must move."""

    def __init__(self, mask: Collection[int], here: int) -> None:
        self.mask, self.here = set(mask), here
        self.masks: list[set[int]] = []
        self.taken: Collection[int] = ()
        """Cores that it may no longer use, which it has not heard yet."""

    def sched_getaffinity(self, thread: int) -> set[int]:
        assert thread == 0, "a confined worker may ask for no other thread"
        return set(self.mask)

    def sched_setaffinity(self, thread: int, mask: Collection[int]) -> None:
        assert thread == 0, "a confined worker may move no other thread"
        if not set(mask) - set(self.taken):
            raise OSError(errno.EINVAL, "Invalid argument")
        self.mask = set(mask) - set(self.taken)
        self.masks.append(set(mask))
        if self.here not in mask:
            self.here = min(mask)

    def sched_getcpu(self) -> int:
        return self.here


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel({0, 1, 2, 3}, here=0)
    monkeypatch.setattr(os, "sched_getaffinity", made.sched_getaffinity, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", made.sched_setaffinity, raising=False)
    monkeypatch.setattr(libc, "library", lambda: made)
    return made


@linux
@each(
    ("threads", "allowed", "fast", "core"),
    [
        (2, {0, 1}, {0, 1}, 1),
        (4, {0, 1, 2, 3}, {0, 1}, 1),
        (2, {4, 5, 6}, {4, 5, 6}, 6),
        (1, {0, 1}, {0, 1}, None),  # no thread to leave alone
        (3, {0, 1}, {0, 1}, None),  # each core has a thread of the runtime, whatever the caller does
        (2, {5}, {5}, None),
    ],
)
def test_the_caller_has_the_last_fast_core(
    kernel: Kernel, threads: int, allowed: set[int], fast: set[int], core: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cores, "fast_ones", lambda: fast)
        kernel.mask = set(allowed)
        assert apart.own(threads) == core
        assert kernel.mask == allowed


@linux
def test_a_sandbox_that_refuses_moves_has_no_such_core(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: int, mask: Collection[int]) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert apart.own(2) is None


def test_without_such_a_core_nothing_moves(kernel: Kernel) -> None:
    with apart.kept_from(None):
        apart.go(None)
    assert kernel.masks == []


def test_threads_are_started_on_the_other_cores(kernel: Kernel) -> None:
    with apart.kept_from(3):
        assert kernel.mask == {0, 1, 2}
    assert kernel.mask == {0, 1, 2, 3}
    with pytest.raises(RuntimeError), apart.kept_from(3):
        raise RuntimeError
    assert kernel.mask == {0, 1, 2, 3}


def test_a_core_that_is_the_only_one_left_is_used(kernel: Kernel) -> None:
    kernel.mask = {3}
    with apart.kept_from(3):
        assert kernel.mask == {3}


@each(
    ("here", "mask", "away", "there"),
    [
        (0, {0, 1, 2, 3}, False, 3),
        (3, {0, 1, 2, 3}, False, 3),
        (3, {0, 1, 2, 3}, True, 0),
        (2, {0, 1, 2, 3}, True, 2),
        (0, {0, 1}, False, 0),  # the core was taken from the process
        (3, {3}, True, 3),
    ],
)
def test_a_thread_moves_and_is_free_afterwards(
    kernel: Kernel, here: int, mask: set[int], away: bool, there: int
) -> None:
    kernel.here, kernel.mask, kernel.masks = here, set(mask), []
    apart.go(3, away=away)
    assert (kernel.here, kernel.mask) == (there, mask)
    assert bool(kernel.masks) == (here != there), "a thread in its place asks nothing of the kernel"


@each("taken", [{0, 1, 2}, {3}, {0, 1, 2, 3}])
def test_cores_that_the_system_takes_meanwhile_end_no_answer(kernel: Kernel, taken: set[int]) -> None:
    """sched_setaffinity(2): EINVAL without a core that the thread may use. A run raised OSError then."""
    kernel.mask, kernel.here, kernel.taken = {0, 1, 2, 3}, 0, taken
    apart.go(3)
    apart.go(3, away=True)
    with apart.kept_from(3):
        pass
    assert kernel.mask == ({0, 1, 2, 3} - taken or {0, 1, 2, 3})


@linux
def test_this_thread_goes_where_it_is_sent() -> None:
    """The real calls. The kernel may move the thread on, so only what it may use is certain."""
    before = os.sched_getaffinity(0)
    for core in before:
        apart.go(core)
        apart.go(core, away=True)
        with apart.kept_from(core):
            assert os.sched_getaffinity(0) == (before - {core} or before)
    assert os.sched_getaffinity(0) == before
