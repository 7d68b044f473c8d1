"""An answer is the same with drafts as without, token for token, on a model of dice: text, thoughts, end and cache."""

from __future__ import annotations

import random
import threading
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples
from support.guessing import GuessingDrafts
from support.spelling import PIECES, DiceSampler, SpellingContext, draft_model, slope, spell, spelling_batch
from support.together import text_of

from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.engines.llama.swapper import UNREAD
from edgeserve.errors import SlowReader
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, PromptEvent, ReasoningEvent, TokenEvent

LONGEST = 6
END: Any = object()
PROMPTS = some.lists(some.integers(1, len(PIECES) - 1), min_size=1, max_size=20)
STOPS = some.lists(some.sampled_from(["ab", "ba", "aba", "c ", "ä", "bb"]), max_size=2).map(tuple)


class Eager(GuessingDrafts):
    """Drafts what an answer's own lookup finds, as far as there is room."""

    writer = Drafts.writer


def drive(batch: Batch, runs: Sequence[Generator[ChatEvent | None, None, None]]) -> list[list[ChatEvent]]:
    told: list[list[ChatEvent]] = [[] for _ in runs]
    under_way = list(range(len(runs)))
    while under_way:
        for number in tuple(under_way):
            for event in runs[number]:
                if event is None:
                    break
                told[number].append(event)
            else:
                under_way.remove(number)
        batch.step()
    return told


def drive_slowly(
    batch: Batch, runs: Sequence[Generator[ChatEvent | None, None, None]], dice: random.Random
) -> list[list[ChatEvent]]:
    """As ``drive``, but behind any event an answer may pause for some steps of the others."""
    told: list[list[ChatEvent]] = [[] for _ in runs]
    pauses = [0] * len(runs)
    under_way = list(range(len(runs)))
    while under_way:
        for number in tuple(under_way):
            pauses[number] -= 1
            while pauses[number] <= 0:
                event = next(runs[number], END)
                if event is END:
                    under_way.remove(number)
                if event is None or event is END:
                    break
                told[number].append(event)
                pauses[number] = dice.choice([0, 0, 1, 2, 5, 30])
        batch.step()
    return told


def said(events: Sequence[ChatEvent]) -> tuple[str, str, ChatEvent]:
    thoughts = "".join(event.text for event in events if isinstance(event, ReasoningEvent))
    return text_of(events), thoughts, events[-1]


def one(
    drafts: Drafts | None, prompt: Sequence[int], request: ChatRequest, seed: int, fancy: float, **how: Any
) -> tuple[tuple[str, str, ChatEvent], dict[int, list[int]], Batch]:
    """The answer, the KV cache after it, and the batch."""
    size, limit = how.get("size", 500), how.get("limit", 60)
    batch, context = spelling_batch(size, 2, drafts, how.get("model"))
    sampler = DiceSampler(seed, fancy, constrained=how.get("constrained", False))
    (events,) = drive(batch, [spell(batch, prompt, request, sampler, limit, threading.Event())])
    assert batch.slots[0].cells == len(context.held[0]), "cells are counted right"
    return said(events), context.held, batch


@examples(200)
@given(
    PROMPTS,
    STOPS,
    some.integers(0, 1000),
    some.sampled_from([0.0, 0.1, 0.5, 1.0]),
    some.integers(1, 60),
    some.sampled_from([24, 500]),
    some.booleans(),
    some.booleans(),
)
def test_drafts_change_nothing(
    prompt: list[int],
    stop: tuple[str, ...],
    seed: int,
    fancy: float,
    limit: int,
    size: int,
    raw: bool,
    constrained: bool,
) -> None:
    request = ChatRequest(prompt="x" if raw else None, stop=stop)
    how: Any = {"limit": limit, "size": size, "constrained": constrained}
    plain = one(None, prompt, request, seed, fancy, **how)
    drafted = one(Eager(LONGEST), prompt, request, seed, fancy, **how)
    learned = one(Drafts(LONGEST, slope(1.0)), prompt, request, seed, fancy, **how)
    assert drafted[:2] == plain[:2]
    assert learned[:2] == plain[:2]


@examples(100)
@given(
    PROMPTS,
    some.integers(0, 1000),
    some.sampled_from([0.0, 0.2, 1.0]),
    some.integers(1, 60),
    some.sampled_from([24, 500]),
    some.sampled_from([5, 30, 500]),
    some.booleans(),
    some.booleans(),
)
def test_a_draft_model_changes_nothing(
    prompt: list[int], seed: int, fancy: float, limit: int, size: int, room: int, cuttable: bool, constrained: bool
) -> None:
    """However often it is right, and however little room it has."""
    how: Any = {"limit": limit, "size": size, "constrained": constrained}
    plain = one(None, prompt, ChatRequest(prompt="x"), seed, fancy, **how)
    model, _ = draft_model(room, cuttable=cuttable)
    drafted = one(Drafts(LONGEST, slope(1.0), model), prompt, ChatRequest(prompt="x"), seed, fancy, model=model, **how)
    assert drafted[:2] == plain[:2]


def test_a_text_that_repeats_itself_takes_fewer_calls() -> None:
    drafts = Drafts(LONGEST, slope(1.0))
    plain, _, batch = one(None, [1, 2], ChatRequest(prompt="x"), 1, 0.0)
    calls = len(counting(batch).calls)
    same, _, batch = one(drafts, [1, 2], ChatRequest(prompt="x"), 1, 0.0)
    assert same == plain
    assert len(counting(batch).calls) < 0.7 * calls
    assert batch.slots[0].drafted >= batch.slots[0].accepted > 20


def counting(batch: Batch) -> SpellingContext:
    context: Any = batch.context
    return context


def test_a_text_without_repetition_drafts_next_to_nothing() -> None:
    _, _, batch = one(Drafts(LONGEST, slope(1.0)), [1, 2], ChatRequest(prompt="x"), 3, 1.0, limit=60)
    assert batch.slots[0].accepted <= batch.slots[0].drafted <= 60


@pytest.mark.slow
@examples(80)
@given(
    some.lists(some.tuples(PROMPTS, some.integers(0, 99), some.integers(1, 40)), min_size=1, max_size=4),
    some.sampled_from([60, 90, 600]),
    some.booleans(),
)
def test_answers_beside_each_other_say_what_each_says_alone(
    asked: list[tuple[list[int], int, int]], size: int, constrained: bool
) -> None:
    """In a small context some start over, wait or end early: those have said a beginning of the same."""
    request = ChatRequest(prompt="x")
    alone = [one(None, prompt, request, seed, 0.1, limit=limit)[0] for prompt, seed, limit in asked]
    batch, _ = spelling_batch(size, len(asked), Eager(LONGEST))
    runs = [
        spell(batch, prompt, request, DiceSampler(seed, 0.1, constrained=constrained), limit, threading.Event())
        for prompt, seed, limit in asked
    ]
    for events, (text, _, end) in zip(drive(batch, runs), alone, strict=True):
        if size == 600:
            assert said(events)[0] == text
            assert said(events)[2] == end
        else:
            assert text.startswith(said(events)[0].removesuffix("�"))
    assert all(slot.cells == len(slot.tokens) and not slot.draft for slot in batch.slots)


@examples(80)
@given(
    some.lists(some.tuples(PROMPTS, some.integers(0, 99), some.integers(0, 20)), min_size=2, max_size=4),
    some.sampled_from([60, 600]),
    some.booleans(),
    some.randoms(use_true_random=False),
)
def test_an_answer_that_pauses_behind_an_event_goes_on_from_its_own_logits(
    asked: list[tuple[list[int], int, int]], size: int, constrained: bool, dice: random.Random
) -> None:
    """Its prompt, too: the steps of the other answers overwrite the logits of whatever they decode of it."""
    request = ChatRequest(prompt="x", count="each")
    alone = [one(None, prompt, request, seed, 0.1, limit=limit)[0] for prompt, seed, limit in asked]
    batch, _ = spelling_batch(size, len(asked), Eager(LONGEST))
    runs = [
        spell(batch, prompt, request, DiceSampler(seed, 0.1, constrained=constrained), limit, threading.Event())
        for prompt, seed, limit in asked
    ]
    for events, (text, _, _), (prompt, _, _) in zip(drive_slowly(batch, runs, dice), alone, asked, strict=True):
        assert text.startswith(said(events)[0].removesuffix("�"))
        read = [event.computed_tokens for event in events if isinstance(event, PromptEvent)]
        assert read == sorted(set(read)), "each event tells more than the one before"
        assert read[-1] == len(prompt)


@examples(40)
@given(PROMPTS, some.integers(0, 99), some.integers(1, 12))
def test_a_cancelled_answer_leaves_no_draft(prompt: list[int], seed: int, after: int) -> None:
    batch, context = spelling_batch(500, 1, Eager(LONGEST))
    cancel = threading.Event()
    run = spell(batch, prompt, ChatRequest(prompt="x"), DiceSampler(seed, 0.1), 60, cancel)
    events: list[ChatEvent] = []
    for count, event in enumerate(run):
        if event is None:
            batch.step()
        else:
            events.append(event)
        if count == after:
            cancel.set()
    assert not any(isinstance(event, FinishEvent) for event in events) or len(events) <= after + 1
    assert context.held[0] == batch.slots[0].tokens
    assert not batch.slots[0].draft


def test_the_tokens_of_one_call_are_one_event() -> None:
    plain, _, _ = one(None, [1, 2], ChatRequest(prompt="x"), 1, 0.0)
    batch, _ = spelling_batch(500, 1, Eager(LONGEST))
    run = spell(batch, [1, 2], ChatRequest(prompt="x"), DiceSampler(1, 0.0), 60, threading.Event())
    (events,) = drive(batch, [run])
    assert text_of(events) == plain[0]
    assert sum(isinstance(event, TokenEvent) for event in events) < 40


def test_an_answer_is_held_behind_each_of_its_events_until_the_reader_takes_the_next() -> None:
    """Meanwhile another one has its room."""
    batch, _ = spelling_batch(60, 2, None)
    requests = [spell(batch, [1] * 25, ChatRequest(), DiceSampler(seed, 0.0), 30, threading.Event()) for seed in (1, 2)]
    unread, other = requests
    while (event := next(unread)) is None or isinstance(event, PromptEvent):
        batch.step()
    assert batch.slots[0].held
    steps = 0
    for event in other:
        if event is None:
            batch.step()
            steps += 1
            assert steps < 200, "the other answer stands still"
    assert isinstance(event, FinishEvent)
    (rest,) = drive(batch, [unread])
    assert isinstance(rest[-1], FinishEvent)
    assert (event.completion_tokens, rest[-1].completion_tokens) == (30, 30)


def test_an_answer_whose_cells_went_while_it_was_unread_says_so_to_its_reader() -> None:
    batch, _ = spelling_batch(60, 2, None)
    unread = spell(batch, [1] * 25, ChatRequest(), DiceSampler(1, 0.0), 30, threading.Event())
    while (event := next(unread)) is None or isinstance(event, PromptEvent):
        batch.step()
    slot = batch.slots[0]
    slot.opaque, slot.cells = True, len(slot.tokens)
    waiting, _ = batch.take([1] * 20, "other")
    batch.swapper.end_unread(0.0)
    waiting.preempted = True
    batch.swapper.end_unread(UNREAD / 2)
    assert slot.cells
    batch.swapper.end_unread(UNREAD)
    assert not slot.cells
    assert not waiting.preempted, "it has room"
    with pytest.raises(SlowReader, match="read faster"):
        next(unread)
