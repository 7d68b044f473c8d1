"""Repeated log lines are counted instead of written."""

from __future__ import annotations

import io
import logging

from hypothesis import given
from hypothesis import strategies as st
from support.gates import Clock

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
