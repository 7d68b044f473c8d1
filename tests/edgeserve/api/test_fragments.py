"""JSON text in pieces: the same as in one call, and parts that were written before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.api.fragments import COMPACT, SPACED, Fragment, written

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(VALUES, st.integers(0, 6), st.sampled_from([SPACED, COMPACT]))
def test_the_text_is_that_of_one_call(value: Any, depth: int, separators: tuple[str, str]) -> None:
    assert written(value, depth, separators) == json.dumps(value, ensure_ascii=False, separators=separators)


def test_a_fragment_stands_as_it_is() -> None:
    assert written({"a": [Fragment("[1,2]"), "[1,2]"]}) == '{"a": [[1,2], "[1,2]"]}'
