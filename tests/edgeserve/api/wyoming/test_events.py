"""The framing: events cut anywhere, and lines that are none."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.wyoming import written

from edgeserve.api.wyoming.events import MAX_DATA, MAX_LINE, MAX_PAYLOAD, MAX_VALUES, Event, Parser, Received
from edgeserve.errors import EdgeserveError, InvalidRequest, TooLarge

VALUES = st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(-9, 9), max_size=3)
EVENTS = st.lists(st.tuples(st.text("abc-", min_size=1, max_size=9), VALUES, st.binary(max_size=50)), max_size=5)


def values(event: Received) -> dict[str, object]:
    return dict(asyncio.run(event.fields()).items())


@pytest.mark.slow
@given(events=EVENTS, cuts=st.lists(st.integers(1, 40), min_size=1, max_size=10))
def test_events_come_whole_however_they_are_cut(
    events: list[tuple[str, dict[str, object], bytes]], cuts: list[int]
) -> None:
    data = b"".join(written(*event) for event in events)
    parser, found, at, turn = Parser(), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found += list(parser.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert [(one.type, values(one), one.payload) for one in found] == events
    assert not parser.has_part
    assert parser.missing == 0


@given(event=st.tuples(st.text("abc", min_size=1), VALUES, st.binary(max_size=50)))
def test_what_is_written_is_read(event: tuple[str, dict[str, object], bytes]) -> None:
    (found,) = Parser().feed(Event(*event).write())
    assert (found.type, values(found), found.payload) == event


def test_data_behind_the_header_are_merged_over_those_in_it() -> None:
    line = json.dumps({"type": "x", "data": {"a": 1, "b": 1}, "data_length": 8, "payload_length": None}).encode()
    (found,) = Parser().feed(line + b'\n{"b": 2}')
    assert values(found) == {"a": 1, "b": 2}


def test_empty_lines_between_events_are_nothing() -> None:
    found = list(Parser().feed(b"\n\r\n" + written("a") + b"\n" + written("b")))
    assert [one.type for one in found] == ["a", "b"]


@each(
    ("data", "error"),
    [
        (b"GET / HTTP/1.1\r\n", "not valid JSON"),
        (b"[1]\n", "must be a JSON object"),
        (b"{}\n", "type is required"),
        (b'{"type": 1}\n', "type must be a string"),
        (b'{"type": "x", "data": 1}\n', "data must be an object"),
        (b'{"type": "x", "data_length": -1}\n', "data_length must be a whole number"),
        (b'{"type": "x", "data_length": true}\n', "data_length must be a whole number"),
        (b'{"type": "x", "payload_length": "9"}\n', "payload_length must be a whole number"),
        (b"\xff\n", "not UTF-8"),
    ],
)
def test_lines_that_are_no_header(data: bytes, error: str) -> None:
    with pytest.raises(InvalidRequest, match=error):
        list(Parser().feed(data))


@pytest.mark.parametrize(("name", "limit"), [("data_length", MAX_DATA), ("payload_length", MAX_PAYLOAD)])
def test_lengths_have_a_limit(name: str, limit: int) -> None:
    assert list(Parser().feed(json.dumps({"type": "x", name: limit}).encode() + b"\n")) == []
    with pytest.raises(TooLarge, match=f"{name} is {limit + 1}; the limit is {limit} bytes"):
        list(Parser().feed(json.dumps({"type": "x", name: limit + 1}).encode() + b"\n"))


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_has_a_limit(end: bytes) -> None:
    with pytest.raises(TooLarge, match=str(MAX_LINE)):
        list(Parser().feed(b" " * (MAX_LINE + 1) + end))


def test_a_header_counts_by_its_values_which_are_few() -> None:
    """64 headers of 20,000 empty lists each waited for the event before them, and counted as nothing."""
    line = b'{"type": "ping", "data": {"lists": [' + b"[]," * (MAX_VALUES // 2 - 10) + b"[]]}}\n"
    (event,) = Parser().feed(line)
    assert event.size > 64 * MAX_VALUES // 2, "an empty list takes 64 bytes"
    with pytest.raises(InvalidRequest, match="more than 1,024 values"):
        list(Parser().feed(line.replace(b"[],", b"[],[],", 20)))


@pytest.mark.parametrize("data", [b"x", b"[]", b'{"a": NaN}', b"\xff"])
def test_data_that_are_no_object(data: bytes) -> None:
    (event,) = Parser().feed(json.dumps({"type": "x", "data_length": len(data)}).encode() + b"\n" + data)
    with pytest.raises(EdgeserveError, match="the data of 'x'"):
        values(event)


def test_text_that_is_no_unicode_is_escaped() -> None:
    assert b"\\ud800" in Event("x", {"text": "\ud800"}).write()
