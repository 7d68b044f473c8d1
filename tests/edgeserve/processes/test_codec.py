"""Every request and event crosses the border between processes unchanged; nothing else comes out of it."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples

from edgeserve import messages
from edgeserve.engine import Footprint, ModelSpec
from edgeserve.processes import codec
from edgeserve.processes.state import EngineState
from edgeserve.slots import SlotState

CLASSES = [one for one in vars(messages).values() if isinstance(one, type) and dataclasses.is_dataclass(one)]
WHOLE = st.integers(-(2**64), 2**64)
NUMBERS = st.floats() | st.sampled_from([-0.0, 0.0, math.inf, -math.inf, math.nan])
TEXTS = st.text(st.characters(), max_size=8) | st.sampled_from(["", "\ud800", "\udfff\ud800", "\0", "é\u2028"])
for kind, strategy in {int: WHOLE, float: NUMBERS, str: TEXTS, bytes: st.binary(max_size=9)}.items():
    st.register_type_strategy(kind, strategy)
st.register_type_strategy(memoryview, st.binary(max_size=9).map(memoryview))
st.register_type_strategy(messages.Audio, st.from_type(messages.Pcm))


def plain(value: object) -> object:
    """A form that tells -0.0 from 0.0, one type from another, and finds NaN equal to itself."""
    if dataclasses.is_dataclass(value):
        return type(value), [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple | list):
        return tuple, [plain(one) for one in value]
    if isinstance(value, dict):
        return dict, [(name, plain(one)) for name, one in value.items()]
    return type(value), repr(bytes(value)) if isinstance(value, memoryview) else repr(value)


def crossed(value: object) -> Any:
    """The value on the other side."""
    writer = codec.Writer()
    head = json.loads(json.dumps(writer.write(value)).encode())
    return codec.read(head, memoryview(writer.body), writer.descriptors)


@pytest.mark.parametrize("kind", [*CLASSES, Footprint])
@examples(10, derandomize=True)
@given(st.data())
def test_each_message_crosses(kind: type, data: st.DataObject) -> None:
    value = data.draw(st.from_type(kind))
    assert plain(crossed(value)) == plain(value)


def test_nothing_is_not_an_empty_list() -> None:
    assert crossed(messages.ChatRequest(prompt=())).prompt == ()
    assert crossed(messages.ChatRequest(prompt=None)).prompt is None


def test_figures_cross() -> None:
    state = EngineState(
        2, Footprint(1, 2, 3, 4), {"context": 5}, 6, 7, True, {"landlock": "on"}, (SlotState(True, 8, 9, 4),)
    )
    assert crossed(state) == state


def test_a_spec_crosses() -> None:
    spec = ModelSpec("llm", "name", "module:Class", options={"a": 1, "b": {"c": (1, "two", 3.0)}})
    assert crossed(spec) == spec


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("cvbBtimpfdx"), inner, max_size=3),
    max_leaves=5,
)


@examples(40, derandomize=True)
@given(JSON, st.sampled_from([*(one.__name__ for one in CLASSES), "Popen"]))
def test_other_json_is_a_value_or_a_value_error(value: Any, name: str) -> None:
    for one in (value, {"c": name, "v": value}):
        try:
            codec.read(one, memoryview(bytes(8)))
        except ValueError:
            continue


def test_bytes_come_once_and_in_order() -> None:
    with pytest.raises(ValueError, match="bytes 0 to 4 of 8, behind byte 4"):
        codec.read([{"b": [0, 4]}, {"b": [0, 4]}], memoryview(bytes(8)))
    reader = codec.Reader(memoryview(b"onetwo"))
    assert (reader.read({"b": [0, 3]}), reader.read({"b": [3, 6]})) == (b"one", b"two")


@each("text", ["a" * codec.LONG, "a" * (codec.LONG + 1), "é\udfff\ud83d\U0001f600" * codec.LONG])
def test_a_long_text_crosses_in_the_body(text: str) -> None:
    writer = codec.Writer()
    head = json.dumps(writer.write((text, b"behind", "short")))
    assert codec.read(json.loads(head), memoryview(writer.body)) == (text, b"behind", "short")
    assert len(head) <= codec.LONG + 50


def test_texts_and_numbers_of_a_body_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MOST_PACKED", 3 * codec.LONG)
    texts = ["a" * 2 * codec.LONG, "b" * 2 * codec.LONG]
    assert crossed(texts) == tuple(texts)
    with pytest.raises(ValueError, match="bytes of texts and numbers"):
        codec.read({"t": [0, 4 * codec.LONG]}, memoryview(bytes(4 * codec.LONG)))
    numbers = tuple(range(16 * codec.LONG)), tuple(range(16 * codec.LONG))
    assert crossed(numbers) == numbers


@each("packed", [{"t": [0, 1]}, {"i": [0, 1]}, {"i": [0, 9]}, {"i": [0]}, {"t": [0, True]}, {"i": [0.0, 8]}])
def test_what_is_no_text_and_no_numbers_is_refused(packed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no value of an edgeserve process|bytes|decode"):
        codec.read(packed, memoryview(bytes([255] * 8)))


@each("last", [0, -(2**63), 2**63, True, 1.0, None, "text"])
def test_many_numbers_cross(last: object) -> None:
    values = (*range(codec.MANY), last)
    assert plain(crossed(values)) == plain(values)


def test_many_short_bytes_take_little_json() -> None:
    pieces = tuple(b"a" * (number % 3) for number in range(10_000))
    writer = codec.Writer()
    head = json.dumps(writer.write(pieces), separators=(",", ":"))
    assert codec.read(json.loads(head), memoryview(writer.body)) == pieces
    assert len(head) < 2.1 * len(pieces)


@each("lengths", [[], [0, 9], [0, -1], [1, 2], [0, 4, 4, 1], [0, 1.5], [0, "1"], [None, 1], "ab", 5])
def test_lengths_that_are_none_are_refused(lengths: object) -> None:
    with pytest.raises(ValueError, match=r"no value of an edgeserve process|bytes"):
        codec.read({"B": lengths}, memoryview(bytes(8)))


@each(
    ("name", "values"),
    [
        ("TokenEvent", [5, []]),
        ("TokenEvent", [None, []]),
        ("TokenEvent", ["text", ["no logprob"]]),
        ("FinishEvent", ["bored", 1, 1, 0, 0, "", 0]),
        ("FinishEvent", ["stop", 1.5, 1, 0, 0, "", 0]),
        ("FinishEvent", ["stop", True, 1, 0, 0, "", 0]),
        ("AudioEvent", ["text", 1]),
        ("SegmentEvent", ["0", 1.0, "", [], 0.0, 0.0, 0.0, 0.0, []]),
        ("EngineState", [0, None, {"d": {}}, None, 1, False, {"d": {}}, [], 0]),
        ("EngineState", [0, {"c": "Footprint", "v": [0, 0, 0, 0, True]}, {"d": {}}, None, 1, False, {"d": {}}, [1], 0]),
    ],
)
def test_fields_of_another_type_are_refused(name: str, values: list[object]) -> None:
    with pytest.raises(ValueError, match="of another type"):
        codec.read({"c": name, "v": values}, memoryview(b""))
