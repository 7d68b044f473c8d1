"""A conversation as numbers, and numbers that are none."""

from __future__ import annotations

import json

import pytest
from support.cases import each

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.ollama import context
from edgeserve.api.ollama.context import MARK, Turn
from edgeserve.api.schema import Record
from edgeserve.errors import InvalidRequest

TURNS: list[Turn] = [("system", "short"), ("user", "grüße 🎈"), ("assistant", "")]


class Asked(Record):
    context = context.ContextField()


@each("size", range(8))
def test_turns_come_back(size: int) -> None:
    turns = [*TURNS, ("user", "x" * size)]
    assert context.turns_in(context.written(turns)) == turns


def test_numbers_survive_json_and_stay_small() -> None:
    numbers = json.loads(json.dumps(context.written(TURNS)))
    assert max(numbers[2:]) < 1 << 24
    assert list(Asked(Fields({"context": numbers}), Limits()).context) == TURNS


def test_a_conversation_that_is_too_long_is_not_told() -> None:
    assert context.written([("user", "x" * 3 * context.LONGEST)]) == []


def forged(data: bytes) -> list[int]:
    parts = [data[at : at + 3].ljust(3, b"\0") for at in range(0, len(data), 3)]
    return [MARK, len(data), *(int.from_bytes(part, "little") for part in parts)]


@each(
    "numbers",
    [
        [1, 2, 3],
        [MARK],
        [MARK, 3, -1],
        [MARK, 3, 1 << 30],
        [MARK, 9, 1],
        [MARK, -5, 1],
        [MARK, 10**300, 1],
        forged(b"[["),
        forged(b'{"a": 1}'),
        forged(b'[["robot", "x"]]'),
        forged(b'[["user"]]'),
        forged(b"[1]"),
        forged(b'[["user", "\xff"]]'),
        forged(rb'[["user", "\ud800"]]'),
        forged(b"[" * 3000),
        ["x"],
        [True],
        [1.5],
        "text",
    ],
)
def test_other_numbers_are_refused(numbers: object) -> None:
    with pytest.raises(InvalidRequest, match="context"):
        Asked(Fields({"context": numbers}), Limits())
