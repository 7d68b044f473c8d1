"""Slots and what they decode next, on a context that only keeps count."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from edgeserve.errors import ContextOverflow, EngineFailure
from engines.llama_batch import PROMPT_SHARE, WORTH_SAVING, Batch, Slot
from engines.llama_cache import PrefixCache
from engines.llama_context import BATCH, Item


class CountingContext:
    """Keeps the tokens of every sequence; a cell for each, shared ones too."""

    def __init__(self, size: int, *, cuttable: bool = True) -> None:
        self.size = size
        self.cuttable = cuttable
        self.held: dict[int, list[int]] = {}
        self.calls: list[list[Item]] = []
        self.fails = False

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        assert 0 < len(wanted) <= BATCH
        if self.fails:
            raise EngineFailure("broken")
        if sum(map(len, self.held.values())) + len(wanted) > self.size:
            return False
        for item in wanted:
            tokens = self.held.setdefault(item.sequence, [])
            assert item.position == len(tokens)
            tokens.append(item.token)
        self.calls.append(wanted)
        return True

    def clear(self, sequence: int) -> None:
        self.held.pop(sequence, None)

    def cut(self, sequence: int, kept: int) -> bool:
        if not self.cuttable and kept < len(self.held.get(sequence, ())):
            return False
        del self.held.setdefault(sequence, [])[kept:]
        return True

    def copy(self, source: int, target: int, length: int) -> None:
        self.held[target] = self.held[source][:length]

    def state_size(self, sequence: int) -> int:
        return len(self.held.get(sequence, ()))

    def save(self, sequence: int) -> Any:
        return bytes(token % 256 for token in self.held[sequence])

    def restore(self, sequence: int, data: bytes) -> bool:
        self.clear(sequence)
        if sum(map(len, self.held.values())) + len(data) > self.size:
            return False
        self.held[sequence] = list(data)
        return True


def batch_of(
    size: int = 1000, slots: int = 2, limit: int = 1000, *, cuttable: bool = True
) -> tuple[Batch, CountingContext]:
    context: Any = CountingContext(size, cuttable=cuttable)
    return Batch(context, slots, PrefixCache(limit, whole=not cuttable)), context


def prompt(seed: int, length: int = 100) -> list[int]:
    return random.Random(seed).choices(range(256), k=length)


def decode(batch: Batch, slot: Slot) -> None:
    while slot.waiting:
        batch.step()


def talk(batch: Batch, tokens: Sequence[int], said: int = 0) -> int:
    """One conversation, alone; how many tokens a cache knew."""
    slot, known = batch.take(tokens)
    for token in range(said):
        decode(batch, slot)
        batch.push(slot, token)
    decode(batch, slot)
    assert slot.tokens == [*tokens, *range(said)]
    batch.give_back(slot)
    return known


def test_a_conversation_goes_on_from_what_it_said() -> None:
    batch, _ = batch_of()
    first = prompt(1)
    assert talk(batch, first, said=5) == 0
    assert talk(batch, [*first, *range(5), 77, 78]) == 105


def test_the_last_token_is_always_decoded_anew() -> None:
    batch, _ = batch_of()
    assert talk(batch, prompt(1)) == 0
    assert talk(batch, prompt(1)) == 99


def test_a_beginning_is_shared_with_an_answer_under_way_and_both_stay_whole() -> None:
    batch, context = batch_of()
    begin = prompt(1, 60)
    slot, _ = batch.take([*begin, 1, 2])
    decode(batch, slot)
    other, known = batch.take([*begin, 3, 4])
    assert known == 60
    decode(batch, other)
    assert context.held == {slot.sequence: [*begin, 1, 2], other.sequence: [*begin, 3, 4]}


def test_conversations_beyond_the_slots_come_back_from_the_saved_states() -> None:
    batch, _ = batch_of(slots=1)
    for seed in (1, 2, 3):
        talk(batch, prompt(seed))
    assert [talk(batch, prompt(seed)) for seed in (1, 2, 3)] == [99, 99, 99]


def test_short_beginnings_are_not_worth_a_state() -> None:
    batch, _ = batch_of(slots=1)
    talk(batch, prompt(1, WORTH_SAVING - 1))
    talk(batch, prompt(2, WORTH_SAVING - 1))
    assert talk(batch, prompt(1, WORTH_SAVING - 1)) == 0


def test_a_model_that_cannot_take_tokens_back_reuses_only_whole_states() -> None:
    batch, _ = batch_of(slots=1, cuttable=False)
    first = prompt(1)
    talk(batch, first)
    assert talk(batch, [*first[:90], 1, 2]) == 0
    assert talk(batch, [*first, 5]) == 100


def test_streams_go_on_while_a_long_prompt_comes_in() -> None:
    batch, context = batch_of(size=4000)
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    batch.push(stream, 1)
    long, _ = batch.take(prompt(2, 1000))
    while long.waiting:
        batch.step()
        assert stream.output is not None
        assert len(context.calls[-1]) <= PROMPT_SHARE + 1
        batch.push(stream, 1)


def test_alone_a_prompt_takes_whole_calls() -> None:
    batch, context = batch_of(size=4000)
    talk(batch, prompt(1, 1000))
    assert [len(call) for call in context.calls] == [BATCH, BATCH, BATCH, 1000 - 3 * BATCH]


def test_a_prompt_that_cannot_fit_is_refused_with_both_numbers() -> None:
    batch, _ = batch_of(size=50)
    with pytest.raises(ContextOverflow, match="50 tokens long; the context holds 50"):
        batch.take(prompt(1, 50))


def test_when_the_context_is_full_idle_conversations_go_first() -> None:
    batch, context = batch_of(size=150, slots=2, limit=0)
    talk(batch, prompt(1, 100))
    assert talk(batch, prompt(2, 100)) == 0
    assert list(map(len, context.held.values())) == [100]


def test_then_the_youngest_starts_over_and_nothing_of_it_is_lost() -> None:
    batch, _ = batch_of(size=130, slots=2, limit=0)
    old, _ = batch.take(prompt(1, 60))
    young, _ = batch.take(prompt(2, 60))
    said = 0
    while said < 20:
        batch.step()
        if old.output is not None:
            batch.push(old, said)
            said += 1
    batch.give_back(old)
    decode(batch, young)
    assert young.tokens == prompt(2, 60)
    assert not young.full


def test_alone_in_a_full_context_an_answer_is_told_so() -> None:
    batch, _ = batch_of(size=50)
    slot, _ = batch.take(prompt(1, 49))
    decode(batch, slot)
    batch.push(slot, 1)
    decode(batch, slot)
    batch.push(slot, 2)
    batch.step()
    assert slot.full


def test_after_a_failure_all_slots_are_empty() -> None:
    batch, context = batch_of()
    slot, _ = batch.take(prompt(1))
    context.fails = True
    with pytest.raises(EngineFailure):
        batch.step()
    batch.give_back(slot)
    context.fails = False
    assert talk(batch, prompt(1)) == 0


@settings(deadline=None, max_examples=60)
@given(
    some.lists(some.tuples(some.integers(0, 3), some.integers(1, 120), some.integers(0, 12)), min_size=1, max_size=14),
    some.integers(1, 4),
    some.booleans(),
    some.sampled_from([160, 400, 2000]),
    some.booleans(),
)
def test_every_conversation_is_decoded_exactly_whatever_its_neighbours(
    asked: list[tuple[int, int, int]], slots: int, cuttable: bool, size: int, rests: bool
) -> None:
    batch, context = batch_of(size=size, slots=slots, limit=500, cuttable=cuttable)
    waiting = [[*prompt(seed, 40), *prompt(seed + 9, length)] for seed, length, _ in asked]
    answers = [count for *_, count in asked]
    running: list[tuple[Slot, list[int], int]] = []
    while waiting or running:
        while waiting and len(running) < slots:
            tokens, count = waiting.pop(), answers.pop()
            if len(tokens) < size:
                running.append((batch.take(tokens)[0], tokens, count))
        for entry in list(running):
            slot, tokens, count = entry
            if slot.full or (slot.output is not None and len(slot.tokens) >= len(tokens) + count):
                assert slot.full or slot.tokens == [*tokens, *range(len(slot.tokens) - len(tokens))]
                assert not slot.full or len(running) == 1 or size < 400
                batch.give_back(slot)
                running.remove(entry)
            elif slot.output is not None:
                assert context.held[slot.sequence] == slot.tokens
                batch.push(slot, len(slot.tokens) - len(tokens))
        if running:
            batch.step()
        elif rests:
            list(batch.rest())


@pytest.mark.parametrize("common", [0, 4, 20])
def test_empty_slots_are_taken_first_whatever_little_is_shared(common: int) -> None:
    batch, context = batch_of(slots=4)
    head = prompt(99, common)
    for seed in range(4):
        talk(batch, [*head, *prompt(seed)])
    assert len(context.held) == 4
    for seed in range(4):
        assert talk(batch, [*head, *prompt(seed), 7]) == common + 100


def test_what_rests_is_copied_and_leaves_the_context_when_another_begins() -> None:
    batch, context = batch_of(slots=3)
    talk(batch, prompt(1), said=5)
    talk(batch, prompt(2))
    assert len(list(batch.rest())) == 2
    assert list(map(len, context.held.values())) == [105, 100]
    slot, _ = batch.take(prompt(3))
    decode(batch, slot)
    assert context.held == {slot.sequence: prompt(3)}
    assert talk(batch, [*prompt(1), *range(5), 7]) == 105


def test_without_a_copy_it_stays() -> None:
    batch, context = batch_of(slots=2)
    talk(batch, prompt(1))
    talk(batch, prompt(2))
    assert list(map(len, context.held.values())) == [100, 100]


def test_a_conversation_that_goes_on_stays_and_one_copy_of_it_is_kept() -> None:
    batch, context = batch_of(limit=110)
    talk(batch, prompt(1))
    assert len(list(batch.rest())) == 1
    assert talk(batch, [*prompt(1), 7, 8]) == 100
    assert list(map(len, context.held.values())) == [102]
    assert len(list(batch.rest())) == 1
    assert len(batch._saved) == 1


@pytest.mark.parametrize("limit", [0, 110, 250, 350])
def test_as_many_conversations_as_slots_lose_hardly_anything_to_copies(limit: int) -> None:
    """In turns, each after a rest: with room for fewer states than there are conversations, those that went before the
    first was missed are decoded anew; from then on the context keeps them all."""
    batch, _ = batch_of(slots=4, limit=limit)
    talks = [prompt(seed) for seed in range(4)]
    missed: list[int] = []
    for turn in range(12):
        for seed, tokens in enumerate(talks):
            if talk(batch, tokens) < len(tokens) - 1 and turn:
                missed.append(seed)
            tokens.append(seed)
            list(batch.rest())
    assert len(missed) == len(set(missed)) < len(talks)
