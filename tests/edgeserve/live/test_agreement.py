"""No hypothesis takes a confirmed word back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.live.agreement import Agreement, covered
from edgeserve.messages import Word


def words(text: str, start: float = 0.0) -> list[Word]:
    """Words of half a second each."""
    return [Word(start + 0.5 * at, start + 0.5 * at + 0.5, f" {word}") for at, word in enumerate(text.split())]


def test_a_word_is_confirmed_when_two_hypotheses_in_a_row_agree_on_it() -> None:
    agreement = Agreement()
    agreement.hear(words("the quick brown..."))
    assert (agreement.text, agreement.partial) == ("", "the quick brown...")
    agreement.hear(words("the quick Brown fox."))
    assert (agreement.text, agreement.partial) == ("the quick Brown", " fox.")
    agreement.hear(words("the quick brown box jumps"))
    assert (agreement.text, agreement.partial) == ("the quick Brown", " box jumps")
    agreement.hear(words("the quick brown fox jumps"))
    assert agreement.text == "the quick Brown"
    agreement.settle()
    assert (agreement.text, agreement.partial) == ("the quick Brown fox jumps", "")


def test_a_hypothesis_that_writes_confirmed_words_otherwise_adds_none_of_them_again() -> None:
    agreement = Agreement()
    for _ in range(2):
        agreement.hear(words("a grey hair sat there"))
    for _ in range(2):
        agreement.hear(words("agree hare sat there and ran"))
    assert agreement.text == "a grey hair sat there and ran"


def test_words_that_left_the_window_are_not_looked_for_in_it() -> None:
    agreement = Agreement()
    for _ in range(2):
        agreement.hear(words("It is. It was"))
    assert (agreement.cut(sentence=True), agreement.cut(sentence=False)) == (1.0, 2.0)
    agreement.leave(1.0)
    assert agreement.left_text == " It is."
    for _ in range(2):
        agreement.hear(words("It was. It is", 1.0), 1.0)
    assert agreement.text == "It is. It was It is"


def test_the_residue_of_a_word_behind_a_cut_is_not_said_twice() -> None:
    agreement = Agreement()
    for _ in range(2):
        agreement.hear(words("down the road"))
    agreement.leave(1.5)
    for _ in range(2):
        agreement.hear([Word(1.5, 1.7, " Road"), Word(1.7, 2.2, " again")], 1.5)
    assert agreement.text == "down the road again"


def test_the_fewest_edits_tell_how_far_the_known_words_reach() -> None:
    assert covered([], ["a"]) == 0
    assert covered(["very"], ["very", "very", "good"]) == 1
    assert covered(["a", "b", "c"], ["a", "b", "x", "c", "d"]) == 4
    assert covered(["a", "b", "c"], ["a", "b"]) == 2


@given(st.lists(st.sampled_from("abcd"), max_size=70), st.lists(st.sampled_from("abcd"), max_size=70))
def test_the_prefix_is_that_of_the_table_of_distances(known: list[str], heard: list[str]) -> None:
    row = list(range(len(heard) + 1))
    for count, word in enumerate(known, start=1):
        previous, row[0] = row[0], count
        for column, other in enumerate(heard, start=1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (word != other))
    assert covered(known, heard) == max(n for n, distance in enumerate(row) if distance == min(row))


class Compared(str):
    """A word that counts its comparisons."""

    __slots__ = ()
    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        Compared.count += 1
        return str.__ne__(self, other)


@pytest.mark.parametrize("heard", ["other", "same", "half", "alike"])
def test_long_texts_are_compared_on_the_event_loop(heard: str) -> None:
    """Each word was compared with each: 900 live words and a transcript of as many held the loop for 0.15 s."""
    known = [Compared(number) for number in range(900)]
    words = {
        "other": [Compared(-number - 1) for number in range(900)],
        "same": [Compared(number) for number in range(900)],
        "half": [Compared(number + number % 2 * 1000) for number in range(900)],
        "alike": [Compared(7) for _ in range(900)],
    }[heard]
    Compared.count = 0
    covered(known, words)
    assert Compared.count < 20_000


WORDS = st.lists(st.sampled_from([" so", " So.", " it", "it", " is", " was,", " …", "好"]), max_size=8)
STEPS = st.lists(st.one_of(WORDS, st.just("settle"), st.floats(0, 30)), max_size=12)


@given(STEPS)
def test_the_text_only_grows_and_ends_as_the_sum_of_its_parts(steps: list[list[str] | str | float]) -> None:
    agreement, parts, start = Agreement(), [""], 0.0
    for step in [*steps, "settle"]:
        before, partial = agreement.text, agreement.partial
        if isinstance(step, list):
            agreement.hear([Word(start + at / 4, start + (at + 1) / 4, text) for at, text in enumerate(step)], start)
        elif isinstance(step, float):
            start = max(start, step)
            agreement.leave(start)
            assert (agreement.text, agreement.partial) == (before, partial)
        else:
            agreement.settle()
            assert agreement.text == before + partial
            assert agreement.partial == ""
        assert agreement.text.startswith(before)
        parts.append(agreement.text[len(before) :])
    assert agreement.text == "".join(parts)
