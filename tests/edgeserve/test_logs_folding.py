"""Repeated log lines are counted instead of written."""

from __future__ import annotations

import io
import itertools
import logging
import threading
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.gates import Clock
from support.server import until

from edgeserve.logs import Folding, FoldingHandler, PlainFormatter


def handler(clock: Clock, stream: io.StringIO, most: int = 256) -> FoldingHandler:
    made = FoldingHandler(stream, Folding(3, 60, clock, most))
    made.setFormatter(PlainFormatter())
    return made


def record(text: str, *values: object, level: int = logging.WARNING, name: str = "edgeserve.x") -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, text, values, None)


def test_repeated_warnings_are_counted_and_logged_once() -> None:
    clock, stream = Clock(), io.StringIO()
    one = handler(clock, stream)
    for number in range(1237):
        one.handle(record("%d are open", number))
    one.handle(record("another thing"))
    assert len(stream.getvalue().splitlines()) == 4
    one.tell()
    assert len(stream.getvalue().splitlines()) == 4, "its time is not over"
    clock.now += 60
    one.tell()
    one.tell()
    (last,) = stream.getvalue().splitlines()[4:]
    assert last.endswith("edgeserve.x [-] repeated 1,234 more times in the last 60 s: %d are open")
    one.handle(record("%d are open", 7))
    assert stream.getvalue().endswith("7 are open\n")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=80))
def test_nothing_is_lost_uncounted(events: list[tuple[str, int]]) -> None:
    clock, stream = Clock(), io.StringIO()
    one = handler(clock, stream)
    for text, seconds in events:
        clock.now += seconds
        one.handle(record(text))
        one.tell()
    clock.now += 60
    one.tell()
    lines = stream.getvalue().splitlines()
    told = sum(int(line.split("repeated ")[1].split()[0]) if "repeated" in line else 1 for line in lines)
    assert told == len(events)


def test_access_lines_are_never_left_out() -> None:
    clock, stream = Clock(), io.StringIO()
    one = handler(clock, stream)
    for _ in range(100):
        one.handle(record("%s %s", "GET", "/", level=logging.INFO))
    assert len(stream.getvalue().splitlines()) == 100


def test_kinds_without_end_take_no_memory() -> None:
    clock, stream = Clock(), io.StringIO()
    one = handler(clock, stream, most=5)
    for number in range(100):
        one.handle(record(f"kind {number}"))
    assert len(one.folding.kinds()) == 5
    assert len(stream.getvalue().splitlines()) == 100


class Collecting(Clock):
    """A clock that is read as a collection begins, which logs of what it collects."""

    def __init__(self) -> None:
        super().__init__()
        self.log: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        log, self.log = self.log, lambda: None
        log()
        return super().__call__()


@each(("counted", "collected"), itertools.product(["a kind", "another", "told"], ["a kind", "another"]))
def test_a_collection_that_logs_while_lines_are_counted_stops_nothing(counted: str, collected: str) -> None:
    """From Python 3.12 on a collection may begin between any two steps. Each later warning waited for ever."""
    clock, stream = Collecting(), io.StringIO()
    one = handler(clock, stream)
    for _ in range(5):
        one.handle(record("told"))
    clock.now += 60
    clock.log = lambda: one.handle(record(collected))
    do = one.tell if counted == "told" else lambda: one.handle(record(counted))
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    until(lambda: not thread.is_alive())
    one.tell()
    one.handle(record("the next"))
    lines = stream.getvalue().splitlines()
    assert [line.partition("[-] ")[2] for line in lines[3:]].count(collected) == 1 + (counted == collected)
    assert "repeated 2 more times" in stream.getvalue()
    assert lines[-1].endswith("the next")
