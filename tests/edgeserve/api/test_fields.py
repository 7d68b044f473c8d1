"""The one reader of numbers and flags, for JSON and for text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.api.fields import SMALLEST, Fields, read_number
from edgeserve.api.json_body import read_object
from edgeserve.errors import InvalidRequest

ANY = st.one_of(
    st.floats(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.booleans(),
    st.none(),
    st.text(),
    st.lists(st.integers()),
)
BOUNDS = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)).map(sorted)


@given(ANY, BOUNDS)
def test_a_number_is_within_its_bounds_and_one_that_float32_knows(value: Any, bounds: list[int]) -> None:
    low, high = bounds
    for kind in ("number", "integer"):
        try:
            found = getattr(Fields({"x": value}), kind)("x", low, high)
        except InvalidRequest as error:
            told = error
            assert told.param == "x"
            assert len(told.message) < 200
            continue
        if value is None:
            assert found is None
        else:
            assert not isinstance(value, bool)
            assert low <= value <= high
            assert found == 0 or abs(found) >= SMALLEST
            assert found == value or abs(value) < SMALLEST or abs(value) > 2**53


@pytest.mark.parametrize("value", [10**5000, -(10**5000), 10**400], ids=["5000", "-5000", "400"])
def test_a_number_that_python_does_not_write(value: int) -> None:
    for written in (False, True):
        fields = Fields({"x": value}, written=written)
        with pytest.raises(InvalidRequest, match="must lie between 0 and 1, not "):
            fields.number("x", 0, 1)
        with pytest.raises(InvalidRequest, match="must lie between 0 and 1, not "):
            fields.integer("x", 0, 1)
        with pytest.raises(InvalidRequest, match="must be a string, not the number "):
            fields.text("x")


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(2**62), 2**62).map(str)))
def test_a_number_that_python_writes_is_read_back(text: str) -> None:
    assert read_number(text) == json.loads(text)


@given(st.text("0123456789+-.eE_ \nnaif１٣x½", max_size=80))
def test_text_is_a_number_where_json_and_python_agree_or_nearly(text: str) -> None:
    found = read_number(text)
    if found is None:
        return
    assert text.isascii()
    assert "_" not in text
    assert found == (int(text) if isinstance(found, int) else float(text))
    assert isinstance(found, int) is text.strip().lstrip("+-").isdigit()


@each(
    "text",
    [
        "nan",
        "inf",
        "-Infinity",
        "1_0",
        "１",
        "٣",
        "",
        " ",
        "1e",
        ".",
        "+",
        "0x1",
        "1 2",
        "\u00a01",
        "1\x00",
        "9" * 65,
        "½",
    ],
)
def test_other_texts_of_a_form_are_no_number(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^temperature must be a number, not '") as caught:
        Fields({"temperature": text}, written=True).number("temperature", 0, 1)
    assert caught.value.param == "temperature"


@each(
    ("text", "value"),
    [("0.5", 0.5), (" 1\n", 1.0), ("1e-320", 0.0), ("1e-40", 0.0), ("-0", 0.0), ("+.5", 0.5), ("1.", 1.0)],
)
def test_numbers_in_a_form(text: str, value: float) -> None:
    assert Fields({"x": text}, written=True).number("x", 0, 1) == value


def test_a_form_may_say_more_than_a_float_holds() -> None:
    assert Fields({"x": str(2**63 - 1)}, written=True).integer("x", 0, 2**63 - 1) == 2**63 - 1
    for text in ("1e999", "-1e999", "9" * 64):
        with pytest.raises(InvalidRequest, match="must lie between"):
            Fields({"x": text}, written=True).number("x", -100, 100)


@pytest.mark.parametrize(("value", "written", "flag"), [(True, False, True), ("true", True, True), ("0", True, False)])
def test_flags(value: Any, written: bool, flag: bool) -> None:
    assert Fields({"x": value}, written=written).flag("x") is flag


@each(("value", "written"), [("true", False), (1, False), ("yes", True), ("True", True), ("", True)])
def test_other_values_are_no_flag(value: Any, written: bool) -> None:
    with pytest.raises(InvalidRequest, match="x must be true or false"):
        Fields({"x": value}, written=written).flag("x")


HALVES = st.text(st.sampled_from("a\ud800\udbff\udc00\udfff"), max_size=4)
TREES = st.recursive(
    HALVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(HALVES, one, max_size=3), max_leaves=8
)


@given(st.dictionaries(HALVES, TREES, max_size=4))
def test_an_object_that_is_read_can_be_written(tree: dict[str, Any]) -> None:
    written = json.dumps(tree).encode()
    try:
        json.dumps(json.loads(written), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(InvalidRequest, match="half of a character") as caught:
            read_object(written)
        (caught.value.message + (caught.value.param or "")).encode()
    else:
        read_object(written)
