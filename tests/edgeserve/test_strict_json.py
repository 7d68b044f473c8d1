"""JSON for strict readers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples
from support.turns import calls_in_json

from edgeserve import strict_json

finite = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(finite, st.booleans())
@examples(60)
def test_portable_json_is_read(value: Any, ascii_only: bool) -> None:
    assert strict_json.loads(f" {json.dumps(value, ensure_ascii=ascii_only)}\n") == value


NUMBERS = ["NaN", "-Infinity", "1e999", '{"a": [-1e400]}', "1" * 400, "-" + "9" * 309]
OTHERS = ['"\\ud800"', '{"\\udfff": 1}', "{} {}", "", "{"]
DEPTHS = ["[" * 65 + "]" * 65, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 200_000]


@each("text", [*NUMBERS, *OTHERS, *DEPTHS])
def test_json_that_some_reader_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        strict_json.loads(text)
    assert len(str(caught.value)) < 200 or isinstance(caught.value, UnicodeEncodeError)


def test_depth_is_counted_to_the_limit() -> None:
    assert strict_json.loads("[" * 64 + "]" * 64)
    assert [strict_json.depth(value) for value in (1, [], [[]], {"a": [1]})] == [0, 1, 2, 2]


def test_other_threads_run_while_many_numbers_are_read() -> None:
    text = json.dumps([2.5e-7, 17] * 1_000)
    assert calls_in_json(lambda: strict_json.loads(text)) >= 2_000
