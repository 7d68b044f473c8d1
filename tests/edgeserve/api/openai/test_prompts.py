from __future__ import annotations

from typing import Any

import pytest
from support.cases import each

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai.prompts import MAX_TOKEN, Prompts, Texts
from edgeserve.api.schema import Record
from edgeserve.errors import InvalidRequest


class Asked(Record):
    prompt = Prompts("", 2)


def read(value: Any) -> Texts:
    return Asked(Fields({"prompt": value}), Limits()).prompt


@each(
    ("value", "prompts"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([0, MAX_TOKEN], ((0, MAX_TOKEN),)),
        ([5.0, 6], ((5, 6),)),
        ([[1e3], "a"], ((1000,), "a")),
    ],
)
def test_texts_and_tokens_are_read(value: Any, prompts: Texts) -> None:
    assert read(value) == prompts
    assert all(type(token) is int for one in read(value) if isinstance(one, tuple) for token in one)


@each("token", [-1, 1.5, -1.0, MAX_TOKEN + 1, float(MAX_TOKEN + 1), float("inf"), True, None])
def test_no_other_number_is_a_token(token: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"prompt\[1\] must be a string or a list of tokens") as caught:
        read(["a", [5, token]])
    assert caught.value.param == "prompt[1]"
