"""Ways to read the grammar of an expression, counted before llama.cpp has to follow them all."""

from __future__ import annotations

import pytest
from support.cases import each

from edgeserve.engines.grammar import paths
from edgeserve.engines.grammar import pattern as reader
from edgeserve.engines.grammar.rules import Budget, Unsayable
from edgeserve.engines.grammar.schema_formats import FORMATS


def ways(pattern: str) -> int:
    return paths.most(reader.read(pattern).shape)[0]


@each(
    "pattern",
    [r"^[a-z]{1,500}$", r"^.*$", r"^(a+)+$", r"^[A-Z]{2}\d{2}[A-Z0-9]{1,30}$", r"^(\d{1,3}\.){3}\d{1,3}$", "^$", "a|b"],
)
def test_what_is_read_in_one_way(pattern: str) -> None:
    assert ways(pattern) == 1


def test_parts_that_may_be_missing_are_counted() -> None:
    assert ways("^a?a?$") == 2  # "a": the first or the second
    assert ways("^a?b?$") == 1
    assert ways("^.?.?.?.?.?.?.?.?.?.?$") == 2**9


def test_two_lists_part_a_text_anywhere() -> None:
    assert ways("^.*.*$") == paths.LENGTH + 1


@pytest.mark.parametrize("pattern", ["^(.?.?.?){1,100}$", ".?" * 400, "^(.{1,22}){1,22}$", "^([^x]{1,22}){1,22}$"])
def test_too_many_ways_are_refused(pattern: str) -> None:
    """A token of two characters took half a minute, and llama.cpp cannot be stopped in it."""
    with pytest.raises(Unsayable, match=r"at once|follow one another"):
        reader.convert(pattern, Budget())


def test_counting_is_bounded() -> None:
    sets = "".join(f"[{chr(0x4E00 + 3 * one)}-{chr(0x4E01 + 3 * one)}]?" for one in range(1900))
    with pytest.raises(Unsayable):
        reader.convert(sets, Budget())


@each("pattern", FORMATS.values())
def test_formats_are_taken(pattern: str) -> None:
    assert reader.convert(pattern, Budget()).live <= reader.MAX_LIVE


@pytest.mark.parametrize("pattern", ["a" * 3_000_000, "[^" + "".join(map(chr, range(0x4E00, 0x9000, 2))) + "]"])
@pytest.mark.timeout(30)
def test_long_expressions_are_beyond_the_budget(pattern: str) -> None:
    """Unbounded, a megabyte takes 17 s and 430 MB, and 20,000 excluded characters take minutes."""
    with pytest.raises(Unsayable):
        reader.convert(pattern, Budget())


def test_an_expression_counts_once_however_often_it_stands_in_a_schema() -> None:
    budget = Budget()
    first = reader.convert(FORMATS["uri"], budget)
    spent = budget.spent
    assert reader.convert(FORMATS["uri"], budget) is first
    assert budget.spent == spent > paths.LENGTH
    assert first.shape is paths.EMPTY  # kept for the next requests without what takes most of its memory
