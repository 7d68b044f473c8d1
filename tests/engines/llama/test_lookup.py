"""Guesses from earlier occurrences of the latest tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from edgeserve.engines.llama.lookup import LONGEST, NEAR, PATIENCE, SHORTEST, Lookup


def test_the_continuation_of_an_earlier_run_is_guessed() -> None:
    lookup = Lookup([1, 2, 3, 4, 5, 6, 1, 2, 3])
    assert list(lookup.guess(2)) == [4, 5]
    assert lookup.matched == 3


def test_nothing_is_guessed_without_an_earlier_run() -> None:
    lookup = Lookup([1, 2, 3, 4])
    assert list(lookup.guess(9)) == []
    assert lookup.matched == 0


def test_a_source_that_goes_on_alike_is_kept() -> None:
    lookup = Lookup([7, 8, 1, 2, 3, 4, 7, 8])
    for token in (1, 2, 3):
        lookup.add(token)
    assert lookup.matched == 5
    assert list(lookup.guess(1)) == [4]


def test_another_source_is_looked_for_after_a_mismatch() -> None:
    lookup = Lookup([7, 8, 1, 2, 9, 5, 6, 7, 8])
    lookup.add(9)
    assert (list(lookup.guess(1)), lookup.matched) == ([5], 1)
    lookup.add(5)
    lookup.add(0)
    lookup.add(1)
    lookup.add(2)
    assert (list(lookup.guess(1)), lookup.matched) == ([9], SHORTEST)


def after(came: list[int]) -> tuple[list[int], int]:
    """The guess and the match behind a source that the answer copies for three tokens; then these come."""
    lookup = Lookup([*range(10, 30), 0])
    for token in (12, 13, 14, *came):
        lookup.add(token)
    return list(lookup.guess(2)), lookup.matched


def test_a_changed_token_does_not_end_a_run() -> None:
    assert after([]) == ([15, 16], 3)
    assert after([99]) == ([16, 17], 0)
    assert after([99, 16]) == ([17, 18], 1)


def test_a_run_goes_on_behind_tokens_that_were_left_out_or_put_in() -> None:
    assert after([18]) == ([19, 20], 1)
    assert after([90, 91, 92, 15]) == ([16, 17], 1)


def test_a_run_that_was_left_for_long_or_for_a_far_place_is_given_up() -> None:
    assert after([90, 91]) == ([], 0)
    assert after([*range(90, 91 + PATIENCE), 15]) == ([], 0)
    assert after([90, 15 + NEAR]) == ([], 0)


def test_the_latest_occurrence_is_the_source() -> None:
    lookup = Lookup([1, 2, 3, 1, 2, 4, 1, 2])
    assert list(lookup.guess(1)) == [4]


def test_no_occurrence_begins_inside_a_token() -> None:
    """The bytes of 0x00020000, 0x00030000 hold those of 2, 3 at an odd place."""
    lookup = Lookup([0x00020000, 0x00030000, 5, 2, 3])
    assert list(lookup.guess(1)) == []


def naive(tokens: list[int]) -> list[int]:
    """Tokens after the latest earlier occurrence of the last three tokens, else of the last two."""
    for length in range(LONGEST, SHORTEST - 1, -1):
        for at in range(len(tokens) - 1, length - 1, -1):
            if len(tokens) > length and tokens[at - length : at] == tokens[-length:]:
                return tokens[at:]
    return []


@given(some.lists(some.integers(0, 3), max_size=30))
def test_a_fresh_lookup_finds_what_a_search_of_lists_finds(tokens: list[int]) -> None:
    assert list(Lookup(tokens).guess(len(tokens))) == naive(tokens)


@given(some.lists(some.integers(0, 3), max_size=12), some.lists(some.integers(0, 3), max_size=12))
def test_what_matches_stands_before_the_guess(prompt: list[int], answer: list[int]) -> None:
    lookup, tokens = Lookup(prompt), list(prompt)
    for token in answer:
        lookup.add(token)
        tokens.append(token)
        guess = list(lookup.guess(len(tokens)))
        assert bool(lookup.matched >= SHORTEST) == bool(naive(tokens)) or lookup.matched > 0
        if lookup.matched < SHORTEST:  # behind a change
            assert guess == tokens[len(tokens) - len(guess) :]
        else:
            before = tokens[: len(tokens) - len(guess)]
            assert before[-SHORTEST:] == tokens[-SHORTEST:]
