"""Drafts lose a bounded time, whatever the texts and the costs of calls, and gain where there is gain."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.llama.credit import FIRST, GIVEN, MOST, SAVED, START, Credit, Purse
from edgeserve.engines.llama.drafts import Drafts

LONGEST = 16
WORDS = 300


def copying(dice: random.Random, source: Sequence[int], length: int, run: float, fresh: float) -> list[int]:
    """Pieces of the source, of ``run`` tokens in the mean, with new tokens before each in a share of ``fresh``."""
    answer: list[int] = []
    while len(answer) < length:
        at = dice.randrange(len(source) - 1)
        while dice.random() < fresh:
            answer.append(dice.randrange(WORDS))
        answer += source[at : at + 1 + int(dice.expovariate(1 / run))]
    return answer[:length]


Writer = Callable[[Sequence[int], Sequence[int]], int]
"""The next token, by the tokens of the draft that are left, and by those of the guess. A draft goes on while right."""


def seconds(drafts: Drafts, prompt: Sequence[int], length: int, writer: Writer, cost: Callable[[int], float]) -> float:
    """The time of the calls for an answer of so many tokens after its first."""
    drafter, written, spent = drafts.writer(prompt), 0, 0.0
    drafter.note([writer((), ())])
    while written < length:
        guess = drafter.guess()
        (count,) = drafts.plan([guess], 1000)
        guessed: Sequence[int] = ()
        if guess is not None:
            guess.drafted, guessed = count, guess.tokens
        drafts.pace.note(1 + count, cost(1 + count))
        spent += cost(1 + count)
        came = []
        for at in range(count + 1):
            came.append(writer(guessed[at:count], guessed[at:]))
            if at < count and came[-1] != guessed[at]:
                break
        drafter.note(came)
        written += len(came)
    return spent + length - written  # tokens beyond the end: a call each at most


def saying(answer: Sequence[int]) -> Writer:
    """Writes the answer, and then zeros."""
    tokens = iter(answer)
    return lambda draft, guess: next(tokens, 0)


def curve(steps: Sequence[float]) -> Callable[[int], float]:
    """Costs of calls, the first of 1 second: each further token takes its step of these, in turn."""
    costs = [1.0]
    for number in range(2 * LONGEST):
        costs.append(costs[-1] + steps[number % len(steps)])
    return lambda size: costs[size - 1]


@examples(60)
@given(
    some.integers(0, 10_000),
    some.lists(some.floats(0, 1), min_size=1, max_size=5),
    some.lists(some.tuples(some.floats(0.5, 30), some.floats(0, 0.9)), min_size=1, max_size=4),
)
def test_no_texts_lose_more_than_a_hundredth_in_the_long_run(
    seed: int, steps: list[float], texts: list[tuple[float, float]]
) -> None:
    dice, drafts, cost = random.Random(seed), Drafts(LONGEST), curve(steps)
    spent, plain = 0.0, 0
    for number in range(24):
        prompt = [dice.randrange(WORDS) for _ in range(100)]
        answer = copying(dice, prompt, 110, *texts[number % len(texts)])
        spent += seconds(drafts, prompt, 80, saying(answer), cost)
        plain += 80
    assert spent <= plain * (1 + SAVED) + FIRST + LONGEST  # a size that nobody knew may cost more than was hoped for


@examples(40)
@given(some.integers(0, 10_000), some.lists(some.floats(0, 1), min_size=1, max_size=5), some.floats(0, 1))
def test_a_text_that_refuses_whatever_is_drafted_loses_no_more(seed: int, steps: list[float], malice: float) -> None:
    """It follows its prompt until a draft is made, and gains the trust of the engine so."""
    dice, drafts, cost = random.Random(seed), Drafts(LONGEST), curve(steps)
    spent, plain = 0.0, 0

    def writer(draft: Sequence[int], guess: Sequence[int]) -> int:
        if draft and dice.random() < malice:
            return WORDS
        return guess[0] if guess else prompt[dice.randrange(100)]

    for _ in range(24):
        prompt = [dice.randrange(WORDS) for _ in range(100)]
        spent += seconds(drafts, prompt, 80, writer, cost)
        plain += 80
    assert spent <= plain * (1 + SAVED) + FIRST + LONGEST


@pytest.mark.parametrize(
    ("steps", "least"), [((1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.2), 1.4), ((0.8, 0.2, 0.2, 0.25), 2.0), ((0.05,), 4.0)]
)
def test_copied_texts_gain(steps: tuple[float, ...], least: float) -> None:
    dice, drafts, cost = random.Random(2), Drafts(LONGEST), curve(steps)
    spent = plain = 0.0
    for _ in range(8):
        prompt = [dice.randrange(WORDS) for _ in range(140)]
        spent += seconds(drafts, prompt, 110, saying(prompt[10:]), cost)
        plain += 110
    assert plain / spent > least


def test_an_answer_drafts_more_once_its_guesses_have_come_true() -> None:
    credit = Credit(Purse())
    assert (credit.limit(long=True), credit.limit(long=False)) == (START, 0.0)
    credit.show(2.5)
    assert (credit.limit(long=True), credit.limit(long=False)) == (START + 2.5, 2.5)
    credit.count(-3.0)
    assert (credit.limit(long=True), credit.limit(long=False)) == (START - 0.5, 0.0)


def test_a_text_without_long_matches_drafts_nothing_before_guesses_would_have_come_true() -> None:
    dice, drafts = random.Random(3), Drafts(LONGEST)
    for _ in range(8):  # the engine has learned that guesses come true
        prompt = [dice.randrange(WORDS) for _ in range(140)]
        seconds(drafts, prompt, 110, saying(prompt[10:]), curve((0.2,)))
    prompt = [dice.randrange(WORDS) for _ in range(140)]
    answer = list[int]()
    for at in range(20):  # two tokens of the prompt, and new ones
        answer += [*prompt[37 * at % 130 :][:2], *range(WORDS + 5 * at, WORDS + 5 * at + 5)]
    assert seconds(drafts, prompt, 80, saying(answer), curve((0.2,))) == 80


def test_losses_are_paid_from_the_purse_and_gains_fill_it() -> None:
    purse = Purse()
    loser, winner = Credit(purse), Credit(purse)
    loser.count(-10.0)
    assert purse.left == FIRST - 10
    winner.count(30.0)
    assert purse.left == pytest.approx(FIRST - 10 + 30 * GIVEN)
    winner.count(-30.0)
    assert purse.left == FIRST - 10
    for _ in range(200):
        loser.plain()
    assert purse.left == pytest.approx(FIRST - 8)


@given(some.lists(some.tuples(some.integers(0, 3), some.floats(0, 1), some.booleans()), max_size=60))
def test_the_purse_never_owes(steps: list[tuple[int, float, bool]]) -> None:
    """Each draft loses all that it may, or gains."""
    purse = Purse()
    answers = [Credit(purse) for _ in range(4)]
    for number, share, gains in steps:
        answer = answers[number]
        answer.plain()
        answer.count(20 * share if gains else -share * answer.cover)
        assert -1e-9 <= purse.left <= MOST
