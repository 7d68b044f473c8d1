"""One test of many cases runs all of them, and names those that fail."""

from __future__ import annotations

import pytest
from support.cases import each


@pytest.fixture
def limit() -> int:
    return 3


@each(("number", "text"), [(1, "one"), (2, "two")])
def test_cases_and_fixtures_come_together(limit: int, number: int, text: str) -> None:
    assert number < limit
    assert isinstance(text, str)


def test_each_case_that_fails_is_named_and_the_others_run() -> None:
    ran: list[int] = []

    @each("number", range(5))
    def check(number: int) -> None:
        ran.append(number)
        if number == 3:
            pytest.fail("as arranged")
        assert number != 1

    with pytest.raises(ExceptionGroup, match="2 of 5 cases failed") as caught:
        check()
    assert ran == list(range(5))
    assert [one.__notes__ for one in caught.value.exceptions] == [["case: 1"], ["case: 3"]]


def test_no_cases_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="cannot fail"):
        each("number", [])(print)
