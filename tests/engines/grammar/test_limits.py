"""Grammars that would overflow llama.cpp's stack never reach it, however deep they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.grammar import limits
from edgeserve.engines.grammar.rules import JSON, Unsayable


def refusal(*rules: str) -> str:
    """Why the grammar is refused; empty where it is not."""
    try:
        limits.check("\n".join([*rules, JSON.strip()]))
    except Unsayable as error:
        return str(error)
    return ""


@examples(20)
@given(some.integers(1, 2 * limits.MAX_NESTING), some.sampled_from(["", "?", "*", '| "b" ']))
def test_groups_in_groups(depth: int, behind: str) -> None:
    why = refusal(f'root ::= {"( " * depth}"a" {f" ){behind} " * depth}')
    assert ("nested more than 200 levels" in why) is (depth >= limits.MAX_NESTING)


@pytest.mark.parametrize(("length", "taken"), [(100, True), (4000, True), (6000, False), (20_000, False)])
def test_rules_that_begin_with_the_next(length: int, taken: bool) -> None:
    rules = [f'r{number} ::= r{number + 1} "x"' for number in range(length)]
    why = refusal("root ::= r0", *rules, f'r{length} ::= "y"')
    assert (why == "") is taken
