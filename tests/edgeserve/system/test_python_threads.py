"""Processor time of Python threads: of made-up ones, and of this process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.server import until

from edgeserve.system.python_threads import PythonThreads, thread_seconds, threads_now

ME = 1


class Made:
    """Threads by id, with the seconds that each has spent."""

    def __init__(self) -> None:
        self.spent = {ME: 0.0}
        self.here = ME
        self.ended: set[int] = set()

    def seconds(self, one: int) -> float:
        if one in self.ended:
            raise OSError(22, "Invalid argument")
        return self.spent[one]

    def reading(self, *, known: bool = True) -> PythonThreads:
        return PythonThreads(lambda: list(self.spent), self.seconds, lambda: self.here, known=known)


@given(st.lists(st.dictionaries(st.integers(1, 5), st.floats(0, 10)), max_size=8), st.floats(0, 100))
def test_all_time_of_others_is_counted_once(rounds: list[dict[int, float]], before: float) -> None:
    made = Made()
    made.spent |= {ME: before, 2: before}
    reading = made.reading()
    begun, expected = reading.read(), 0.0
    for work in rounds:
        for one, seconds in work.items():
            made.spent[one] = made.spent.get(one, 0.0) + seconds
            expected += seconds if one != ME else 0.0
        assert reading.read() - begun == pytest.approx(expected, abs=1e-6)


def test_the_thread_that_asked_before_counts_from_then_on() -> None:
    made = Made()
    made.spent |= {ME: 90.0, 2: 7.0}
    reading = made.reading()
    begun = reading.read()
    made.here = 2
    made.spent[ME] += 0.5
    made.spent[2] += 3.0
    assert reading.read() - begun == pytest.approx(0.5)


def test_a_thread_that_has_ended_is_left_out_and_its_id_may_come_again() -> None:
    made = Made()
    made.spent[2] = 5.0
    reading = made.reading()
    begun = reading.read()
    made.ended.add(2)
    assert reading.read() == begun
    made.ended.clear()
    made.spent[2] = 0.25
    assert reading.read() == begun + 0.25
    made.spent[2] = 0.125
    assert reading.read() == begun + 0.375, "another thread under the same id, whose beginning was not seen"


def test_elsewhere_nothing_is_known() -> None:
    made = Made()
    made.spent[2] = 5.0
    assert made.reading(known=False).read() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="a clock of Linux's kernel")
def test_the_time_of_a_thread_is_its_own() -> None:
    reading, spent, stop = PythonThreads(), threading.Event(), threading.Event()
    begun = reading.read()

    def work() -> None:
        while time.thread_time() < 0.05:
            pass
        spent.set()
        stop.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert thread.native_id in threads_now()
    native = thread.native_id
    assert native is not None
    assert spent.wait(60)
    assert 0.05 <= reading.read() - begun <= time.process_time()
    stop.set()
    thread.join()
    until(_raising(native))  # the kernel may still be ending it


def _raising(one: int) -> Callable[[], bool]:
    def ended() -> bool:
        try:
            thread_seconds(one)
        except OSError:
            return True
        return False

    return ended
