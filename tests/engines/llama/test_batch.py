"""Slots and what they decode next, on a context that only keeps count."""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.counting import CountingContext, batch_of, decode, prompt, talk
from support.examples import examples

from edgeserve.engines.llama.adapter_turns import TURN
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.cache import WORTH_SAVING, PrefixCache
from edgeserve.engines.llama.chances import SURE
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.drafts import Drafts, Guess
from edgeserve.engines.llama.embed import embed
from edgeserve.engines.llama.options import BATCH, LONGEST_DRAFT
from edgeserve.engines.llama.pieces import CREDIT, FIRST, GAP, KEPT, LEAST, OWN, SHORT, TILE
from edgeserve.engines.llama.seats import gives_way
from edgeserve.engines.llama.slot import Slot
from edgeserve.errors import Cancelled, ContextOverflow, EdgeserveError, EngineFailure, InvalidRequest


def test_a_conversation_goes_on_from_what_it_said() -> None:
    batch, _ = batch_of()
    first = prompt(1)
    assert talk(batch, first, said=5) == 0
    assert talk(batch, [*first, *range(5), 77, 78]) == 105


def test_the_last_token_is_always_decoded_anew() -> None:
    batch, _ = batch_of()
    assert talk(batch, prompt(1)) == 0
    assert talk(batch, prompt(1)) == 99


def test_a_prefix_is_shared_with_an_answer_under_way_and_both_stay_whole() -> None:
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


def test_short_prefixes_are_not_worth_a_state() -> None:
    batch, _ = batch_of(slots=1)
    talk(batch, prompt(1, WORTH_SAVING - 1))
    talk(batch, prompt(2, WORTH_SAVING - 1))
    assert talk(batch, prompt(1, WORTH_SAVING - 1)) == 0


def test_a_model_that_cannot_remove_tokens_reuses_only_whole_states() -> None:
    batch, _ = batch_of(slots=1, cuttable=False)
    first = prompt(1)
    talk(batch, first)
    assert talk(batch, [*first[:90], 1, 2]) == 0
    assert talk(batch, [*first, 5]) == 100


def test_streams_go_on_while_a_long_prompt_comes_in() -> None:
    batch, _ = batch_of(size=4000)
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    batch.push(stream, 1)
    long, _ = batch.take(prompt(2, 1000))
    while long.waiting:
        batch.step()
        assert stream.output is not None
        batch.push(stream, 1)


class Timed(CountingContext):
    """Takes a second for every ``rate`` tokens, by a clock of its own."""

    rate, now = 100.0, 0.0

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        self.now += len(wanted) / self.rate
        return super().decode(wanted)

    def clock(self) -> float:
        return self.now


def test_a_piece_of_a_prompt_takes_as_long_as_streams_may_wait() -> None:
    context = Timed(4000)
    batch = Batch(context, 2, PrefixCache(1000, whole=False), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    long, _ = batch.take(prompt(2, 1000))
    while long.waiting:
        batch.push(stream, 1)
        batch.step()
    assert len(context.calls[1]) == FIRST, "nothing was measured yet"
    read = [len(call) for call in context.calls[2:-1] if len(call) > 1]
    assert set(read) == {int(context.rate * GAP) // TILE * TILE}


@each(("others", "rate"), [(1, 100.0), (1, 400.0), (3, 100.0), (3, 40.0)])
def test_a_stream_keeps_a_part_of_the_time_whatever_prompts_others_send(others: int, rate: float) -> None:
    """One client that sent prompt after prompt left all others a token for each piece: 1.3 s each, measured."""
    context = Timed(4000)
    context.rate = rate
    batch = Batch(context, 4, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    long: list[Slot] = []
    began = context.now
    for seed in range(2, 300):
        for slot in (slot for slot in long if not slot.waiting):
            batch.give_back(slot)
        long = [slot for slot in long if slot.waiting]
        long += [batch.take(prompt(seed, 600))[0] for _ in range(others - len(long))]
        batch.push(stream, 1)
        batch.step()
    own = sum(len(call) for call in context.calls if len(call) == 1) / rate
    owed = OWN / (1 + OWN) * (context.now - began) - CREDIT
    assert own >= 0.8 * owed > 0, "all but that for the last piece"
    assert sum(map(len, context.calls)) > 1000, "the prompts are read, too"


def test_a_prompt_now_and_then_is_read_without_a_pause() -> None:
    context = Timed(4000)
    batch = Batch(context, 2, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    for seed in (2, 3):
        long, _ = batch.take(prompt(seed, int(2.5 * CREDIT * context.rate)))
        first = len(context.calls)
        while long.waiting:
            batch.push(stream, 1)
            batch.step()
        assert min(map(len, context.calls[first:])) > 1, "no call for the stream alone"
        batch.give_back(long)
        calm = context.now + CREDIT
        while context.now < calm:
            batch.push(stream, 1)
            batch.step()


@each("seconds", [0.06, 0.3, 2.0])
def test_a_stream_keeps_a_part_of_the_time_whatever_texts_others_embed(seconds: float) -> None:
    """A text or a picture in each step made each token wait for it."""
    context = Timed(4000)
    batch = Batch(context, 3, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    busy, done, began = batch.take_empty(), 0, context.now

    def job() -> None:
        nonlocal done
        context.now += seconds
        done += 1

    count = int(15 * CREDIT / seconds)
    while done < count:
        busy.job = job
        batch.push(stream, 1)
        batch.step()
        assert stream.output is not None, "a job and a token, or a token alone"
    assert context.now - began - done * seconds >= 0.9 * OWN * (done - 1) * seconds - CREDIT
    batch.give_back(stream)
    for _ in range(3):
        busy.job = job
        batch.step()
    assert done == count + 3, "nobody else has anything to do"


@examples(50)
@given(some.lists(some.integers(40, 900), min_size=1, max_size=3), some.integers(40, 120), some.booleans())
def test_a_short_prompt_waits_for_no_long_one(others: list[int], short: int, beside: bool) -> None:
    context = Timed(4000)
    batch = Batch(context, 5, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    long = [batch.take(prompt(seed, size))[0] for seed, size in enumerate(others, start=2)]
    waiting, _ = batch.take(prompt(9, short))
    oldest, pieces = len(long[0].pending), 0
    while waiting.waiting:
        if beside:
            batch.push(stream, 1)
        batch.step()
        pieces += len(context.calls[-1]) > 1
    shorter = sum(size for size in others if size <= short)
    assert pieces <= 2 + (short + shorter) // (LEAST // 2)
    assert len(long[0].pending) < oldest, "the oldest goes on meanwhile"


def test_the_oldest_prompt_ends_whatever_short_ones_come() -> None:
    batch, _ = batch_of(size=4000, slots=3)
    oldest, _ = batch.take(prompt(1, 1500))
    for seed in itertools.count(2):
        if not oldest.waiting:
            break
        slot, _ = batch.take(prompt(seed, 250))
        batch.step()
        batch.give_back(slot)
        batch.swapper.empty(slot)
        assert seed < 20


def test_a_prompt_that_nobody_waits_for_is_read_in_short_calls_unless_another_is_read() -> None:
    context = Timed(4000)
    batch = Batch(context, 2, PrefixCache(1000, whole=False), Drafts(0, context.clock))  # type: ignore[arg-type]
    ahead, _ = batch.take(prompt(1, 1000))
    ahead.ahead = True
    batch.step()
    batch.step()
    assert [len(call) for call in context.calls] == [FIRST, batch.pieces.room_ahead]
    other, _ = batch.take(prompt(2, 1000))
    batch.step()
    assert len(context.calls[-1]) == BATCH
    for slot in (ahead, other):
        batch.give_back(slot)
    assert not batch.take(prompt(3, 100))[0].ahead


def test_forced_tokens_and_drafts_stay_within_a_call() -> None:
    drafts = Drafts(LONGEST_DRAFT)
    for size in (1, 64):
        drafts.pace.note(size, 1.0)  # a larger call takes no longer: every draft pays
    context: Any = CountingContext(4000)
    context.batch = 32
    batch = Batch(context, 1, PrefixCache(1000, whole=False), drafts)
    slot, _ = batch.take(prompt(1, 10))
    decode(batch, slot)
    batch.push(slot, *range(24), guess=Guess(range(LONGEST_DRAFT), SURE, 0))
    batch.step()
    assert len(context.calls[-1]) == 32
    assert slot.draft == list(range(8))


def test_a_slot_whose_draft_cannot_be_removed_is_free_for_others() -> None:
    """An answer that was cancelled behind such a draft kept its slot for ever."""
    drafts = Drafts(LONGEST_DRAFT)
    for size in (1, 64):
        drafts.pace.note(size, 1.0)
    context: Any = CountingContext(4000, cuttable=False)
    batch = Batch(context, 1, PrefixCache(1000, whole=True), drafts)
    slot, _ = batch.take(prompt(1, 10))
    decode(batch, slot)
    batch.push(slot, 1, guess=Guess(range(LONGEST_DRAFT), SURE, 0))
    batch.step()
    assert slot.draft
    with pytest.raises(EngineFailure, match="cannot remove refused drafts"):
        batch.give_back(slot)
    assert batch.busy == 0
    assert talk(batch, prompt(2)) == 0


def test_no_draft_follows_forced_tokens_that_a_call_has_no_room_for() -> None:
    """The context asserts that each token comes behind those before it."""
    drafts = Drafts(LONGEST_DRAFT)
    for size in (1, 2 * BATCH):
        drafts.pace.note(size, 1.0)  # a larger call takes no longer: every draft pays
    batch, context = batch_of(size=4000, slots=4, drafts=drafts)
    slots = [batch.take(prompt(number, 10))[0] for number in range(4)]
    while any(slot.waiting for slot in slots):
        batch.step()
    for slot in slots:
        batch.push(slot, *range(30), guess=Guess(range(100, 104), SURE, 0) if slot is slots[2] else None)
    for _ in range(KEPT):
        batch.pieces.note(LEAST, 10 * GAP)  # a slow machine: a call is short
    batch.step()
    assert [len(slot.pending) for slot in slots] == [0, 0, 26, 30]
    assert slots[2].draft == []
    while slots[3].waiting:
        batch.step()
    assert [context.held[slot.sequence][10:40] for slot in slots] == [list(range(30))] * 4


def test_alone_a_prompt_takes_whole_calls() -> None:
    batch, context = batch_of(size=4000)
    talk(batch, prompt(1, 1000))
    assert [len(call) for call in context.calls] == [BATCH, BATCH, BATCH, 1000 - 3 * BATCH]


def test_a_prompt_that_cannot_fit_is_refused_with_both_numbers() -> None:
    batch, _ = batch_of(size=50)
    with pytest.raises(ContextOverflow, match="50 tokens long; the context holds 50"):
        batch.take(prompt(1, 50))


def test_a_full_context_evicts_idle_slots_first() -> None:
    batch, context = batch_of(size=150, slots=2, limit=0)
    talk(batch, prompt(1, 100))
    assert talk(batch, prompt(2, 100)) == 0
    assert list(map(len, context.held.values())) == [100]


def test_a_full_context_preempts_the_youngest_answer_and_loses_nothing_of_it() -> None:
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


def test_an_answer_alone_in_a_full_context_is_marked_full() -> None:
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


@examples(60)
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
            list(batch.idle_work())


@pytest.mark.parametrize("common", [0, 4, 20])
def test_empty_slots_are_taken_first_whatever_little_is_shared(common: int) -> None:
    batch, context = batch_of(slots=4)
    head = prompt(99, common)
    for seed in range(4):
        talk(batch, [*head, *prompt(seed)])
    assert len(context.held) == 4
    for seed in range(4):
        assert talk(batch, [*head, *prompt(seed), 7]) == common + 100


def raises(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [EngineFailure("code -3"), ValueError("odd"), RecursionError(), MemoryError("much")])
def test_a_job_that_raises_is_the_error_of_its_own_slot(error: Exception) -> None:
    batch, _ = batch_of()
    stream, _ = batch.take(prompt(1))
    bad = batch.take_empty()
    bad.job = functools.partial(raises, error)
    decode(batch, stream)
    assert isinstance(bad.error, EdgeserveError)
    assert stream.tokens == prompt(1)
    batch.give_back(bad)
    assert bad.error is None


def test_beside_answers_jobs_are_done_one_at_a_time_in_turns() -> None:
    """Each token of an answer waited for a job of every slot that embeds."""
    batch, _ = batch_of(slots=3)
    slot, _ = batch.take(prompt(1))
    embedding, done = [batch.take_empty(), batch.take_empty()], list[int]()

    def step() -> None:
        for one in embedding:
            one.job = functools.partial(done.append, one.sequence)
        batch.step()

    for _ in range(4):
        slot.pending = slot.pending or [5]
        step()
    assert sorted(done[:2]) == sorted(done[2:]) == sorted(one.sequence for one in embedding)
    batch.give_back(slot)
    done.clear()
    step()
    assert sorted(done) == sorted(one.sequence for one in embedding), "without an answer, all"


def test_a_prompt_of_no_token_is_refused() -> None:
    batch, _ = batch_of()
    with pytest.raises(InvalidRequest, match="empty"):
        batch.take([])


def filled() -> tuple[Batch, CountingContext, Slot, Slot]:
    """A context of 200 cells without one for the next token of its two answers: the younger one is full."""
    batch, context = batch_of(size=200)
    old, young = batch.take_empty(), batch.take_empty()
    for slot, begin in ((old, prompt(1, 90)), (young, prompt(2, 110))):
        batch.push(slot, *begin)
        decode(batch, slot)
    batch.push(old, 1)
    batch.push(young, 1)
    batch.step()
    assert (young.full, old.full) == (True, False)
    return batch, context, old, young


def test_an_answer_waits_for_the_room_of_one_that_ends_and_is_not_cut_with_it() -> None:
    batch, context, old, young = filled()
    assert not batch.starved, "it ends of its own accord: no reader is cut for its room"
    young.held = True
    batch.step()
    assert batch.starved, "it ends when its reader goes on"
    batch.give_back(young)
    decode(batch, old)
    assert context.held == {old.sequence: [*prompt(1, 90), 1]}


def test_an_answer_that_is_full_goes_on_where_another_ends_before_it() -> None:
    batch, context, old, young = filled()
    batch.give_back(old)
    decode(batch, young)
    assert context.held == {young.sequence: [*prompt(2, 110), 1]}


def test_a_preempted_answer_starves_once_nothing_is_decoded_and_the_reader_of_the_rest_pauses() -> None:
    batch, _ = batch_of(size=130, slots=2, limit=0)
    old = batch.take_empty()
    batch.push(old, *prompt(1, 60))
    young, _ = batch.take(prompt(2, 60))
    decode(batch, old)
    while not young.preempted:
        batch.push(old, 1)
        batch.step()
        assert not batch.starved
    batch.step()
    assert not batch.starved, "its next token may take some time to be chosen"
    old.held = True
    batch.step()
    assert batch.starved
    batch.give_back(old)
    assert not batch.starved
    decode(batch, young)


@each(("salts", "stops"), [("aaav", False), ("bbbbv", False), ("aabbv", False), ("abv", True), ("vvv", True)])
def test_long_answers_of_one_client_stop_no_answer_of_another(salts: str, stops: bool) -> None:
    """The youngest answer waited until one of another client's long ones had ended, however small it was."""
    batch, _ = batch_of(size=600, slots=len(salts), limit=0)
    long = [batch.take(prompt(seed, 500 // (len(salts) - 1)), f"{one}/1")[0] for seed, one in enumerate(salts[:-1])]
    small, _ = batch.take(prompt(99, 20), "v/1")
    taken = [*long, small]
    stopped = False
    for _ in range(60):
        batch.step()
        stopped |= small.preempted
        for slot in taken:
            if slot.output is not None:
                batch.push(slot, 5)
    assert stopped == stops, "an answer that its client has alone waits by its age"
    assert any(slot.preempted for slot in taken)
    assert not long[0].preempted, "the oldest ends some time"


def reads(batch: Batch, slot: Slot, cells: int) -> None:
    """Give a slot a job that takes so many cells."""

    def job() -> None:
        batch.seats.make_room(slot, cells)
        batch.context.decode([Item(0, slot.cells + at, slot.sequence, False) for at in range(cells)])
        slot.position = slot.cells = slot.cells + cells

    slot.job = job


def answers(batch: Batch, slot: Slot) -> None:
    """Let an answer about a picture that has been read say a token."""
    slot.whole = 0
    batch.push(slot, 1)


@each(("salts", "waits"), [("aaa", False), ("aab", False), ("aaaa", False), ("a", True), ("ab", True), ("abc", True)])
def test_a_text_gets_room_beside_long_answers(salts: str, waits: bool) -> None:
    """It was refused as soon as the answers of anybody else had taken the context."""
    batch, _ = batch_of(size=600, slots=len(salts) + 1, limit=0)
    long = [batch.take(prompt(seed, 560 // len(salts)), f"{one}/1")[0] for seed, one in enumerate(salts)]
    for _ in range(20):
        batch.step()
    text = batch.take_empty()
    reads(batch, text, 60)
    steps = 0
    while text.job is not None:
        batch.step()
        steps += 1
        for slot in long:
            if slot.output is not None:
                batch.push(slot, 5)
            if slot.full:
                batch.give_back(slot)
        assert steps < 200
    assert (text.error, text.cells) == (None, 60)
    assert (steps > 1) == waits, "a text waits by its age for an answer that its client has alone"
    assert not long[0].preempted, "the oldest ends some time"


class Embedding(CountingContext):
    def embed(self, tokens: list[int], position: int, sequence: int) -> Any:
        assert self.decode([Item(token, position + at, sequence, True) for at, token in enumerate(tokens)])
        return numpy.array([(1, token) for token in tokens], "float32")


@each(("own", "other"), [("a", "b"), ("b", "a")])
def test_texts_take_the_room_of_their_own_client_first(own: str, other: str) -> None:
    """Texts were nobody's. So they evicted the longest conversation, whoever had it."""
    context: Any = Embedding(300)
    batch = Batch(context, 4, PrefixCache(0))
    for client, seed, length in ((own, 1, 60), (other, 2, 100)):
        talk(batch, prompt(seed, length), salt=f"{client}/")
    for text in [embed(batch, [prompt(seed)], threading.Event(), salt=f"{own}/") for seed in (3, 4)]:
        next(text)
        batch.step()
    assert [slot.tokens for slot in batch.slots if slot.idle] == [prompt(2)]


@each(("clients", "stops"), [("ab", "b"), ("aab", "a"), ("abb", "b"), ("aabb", "b")])
def test_texts_count_as_answers_of_their_client(clients: str, stops: str) -> None:
    """Texts of several clients counted as those of one. So each of them made way as if it had several."""
    context: Any = Embedding(600)
    batch = Batch(context, len(clients), PrefixCache(0), Drafts(0))
    works = [embed(batch, [prompt(1, 400 // len(clients))], threading.Event(), salt=f"{one}/1") for one in clients]
    for one in works:
        next(one)
        batch.step()
    assert [slot.salt[0] for slot in batch.slots] == list(clients)
    for slot in batch.slots:
        slot.cells = 100
    assert gives_way(batch.slots).salt[0] == stops
    for one in works:
        one.close()  # type: ignore[attr-defined]


def beside(slots: int, extra: int, *, size: int = 4000, limit: int = 0) -> Batch:
    return batch_of(size, slots, limit, beside=extra)[0]


@each(("slots", "extra"), [(1, 1), (1, 4), (2, 1), (4, 4)])
def test_answers_beside_the_slots_have_no_number_and_go_on_as_all_others(slots: int, extra: int) -> None:
    batch = beside(slots, extra)
    taken = [batch.take(prompt(seed))[0] for seed in range(slots + extra)]
    assert [batch.numbers.of(slot) for slot in taken] == [*range(slots), *[-1] * extra]
    assert batch.seats.full
    for slot in taken:
        decode(batch, slot)
    for _ in range(5):
        for slot in taken:
            batch.push(slot, 7, guess=Guess([7], SURE, 0))
            assert (slot.guess is None) == (batch.numbers.of(slot) < 0), "drafts have rows of logits for slots alone"
        batch.step()
    assert [slot.tokens for slot in taken] == [[*prompt(seed), *[7] * 5] for seed in range(slots + extra)]


@each(("slots", "extra"), [(1, 1), (2, 4), (4, 4)])
def test_no_more_conversations_stay_than_there_are_slots(slots: int, extra: int) -> None:
    """Idle cells make each token slower, and another client's conversation of yesterday is no reason for that."""
    batch = beside(slots, extra, limit=10_000)
    for slot in [batch.take(prompt(seed))[0] for seed in range(slots + extra)]:
        decode(batch, slot)
        batch.give_back(slot)
    assert talk(batch, prompt(99)) == 0
    assert sum(slot.idle for slot in batch.slots) == slots
    assert sum(slot.idle for slot in batch.numbers.slots) == slots
    for seed in range(slots + extra):
        assert talk(batch, prompt(seed)) == 99, "the others have been saved"


def test_a_conversation_from_beside_gets_a_number_once_one_is_free() -> None:
    batch = beside(1, 2)
    first, other = batch.take(prompt(1))[0], batch.take(prompt(2))[0]
    for slot in (first, other):
        decode(batch, slot)
        batch.give_back(slot)
    first.drafted, first.accepted = 5, 3
    again, known = batch.take([*prompt(2), 1, 2])
    assert (again, known, batch.numbers.of(again)) == (other, 100, 0)
    assert (again.drafted, again.accepted, first.drafted) == (5, 3, 0), "the counts of a number never fall"


def test_a_client_alone_uses_the_slots_as_if_there_were_none_beside() -> None:
    dice, plain, batch = random.Random(1), beside(3, 0, limit=300), beside(3, 4, limit=300)
    for _ in range(200):
        seed, said = dice.randrange(8), dice.randrange(5)
        tokens = [*prompt(seed), *range(dice.randrange(60))]
        assert talk(plain, tokens, said) == talk(batch, tokens, said)
        assert [slot.tokens for slot in plain.slots] == [slot.tokens for slot in batch.numbers.slots]


def test_texts_that_wait_for_each_other_are_not_kept_for_ever() -> None:
    batch, _ = batch_of(size=100, slots=2)
    one, other = batch.take_empty(), batch.take_empty()
    reads(batch, one, 60)
    reads(batch, other, 40)
    batch.step()
    reads(batch, other, 20)
    batch.step()
    assert other.preempted
    assert other.error is None
    reads(batch, one, 20)
    batch.step()
    assert "taken by answers under way" in str(one.error)
    batch.give_back(one)
    batch.step()
    assert (other.job, other.error, other.cells) == (None, None, 60)


def test_a_text_that_waits_ends_no_answer_early() -> None:
    """It keeps what it has read. The answer ended as if the rest were the whole context."""
    batch, _ = batch_of(size=600, slots=2, limit=0)
    long, _ = batch.take(prompt(1, 500), "a/1")
    decode(batch, long)
    text, steps = batch.take_empty(), 0
    for cells in (60, 60):
        reads(batch, text, cells)
        while text.job is not None:
            batch.step()
            if long.output is not None:
                batch.push(long, 5)
            steps += 1
            assert steps < 200
            assert not long.full
    assert (text.error, text.cells) == (None, 120)
    batch.give_back(text)
    while not long.full:
        batch.step()
        if long.output is not None:
            batch.push(long, 5)
    assert long.cells == 600


@each(("length", "begins"), itertools.product([20, 180, 290], [100, 250, 300]))
def test_no_text_is_refused_for_an_answer_about_a_picture_nor_ends_it_early(length: int, begins: int) -> None:
    """A text with cells that waited ended the answer. Or the answer, which filled the context, had a text refused."""
    context: Any = Embedding(300)
    context.outputs = 5
    batch = Batch(context, 3, PrefixCache(0), Drafts(0))
    slot = batch.take_empty(salt="a/1")
    reads(batch, slot, 100)
    texts = [embed(batch, [prompt(1, length)], threading.Event(), salt=f"{client}/1") for client in "bc"]
    found: list[Any] = []
    for _ in range(2000):
        if slot.cells >= begins or not slot.busy:
            found += [event for event in (next(text, None) for text in texts) if event is not None]
        batch.step()
        if slot.full:
            assert slot.cells == 300, "it has all of the context"
            batch.give_back(slot)
        elif slot.busy and not slot.pending and slot.cells:
            answers(batch, slot)
        elif len(found) == 2:
            break
    assert found == 2 * vectors(prompt(1, length))


@each("length", [100, 180])
def test_a_text_begins_anew_for_no_younger_answer_about_a_picture(length: int) -> None:
    """Else pictures without end would have it begin anew without end."""
    context: Any = Embedding(300)
    context.outputs = 5
    batch, pictures = Batch(context, 2, PrefixCache(0), Drafts(0)), 0
    text, slot = embed(batch, [prompt(1, length)], threading.Event(), salt="b/1"), batch.slots[0]
    while True:
        if slot.full:
            batch.give_back(slot)
        if not slot.busy:
            slot, pictures = batch.take_empty(salt="a/1"), pictures + 1
            reads(batch, slot, 100)
        elif not slot.pending and slot.cells:
            answers(batch, slot)
        if next(text) is not None:
            break
        batch.step()
        assert pictures < 4, "it begins time and again"


@each("asked", ["a question", "a text", "a picture"])
def test_answers_about_pictures_without_end_hold_up_no_long_request(asked: str) -> None:
    """Two at a time left no moment without one in its way, and the next one began in the room of the last."""
    batch, _ = batch_of(size=300, slots=3, limit=0)
    pictures, long = list[Slot](), None
    for step in range(400):
        for slot in [one for one in pictures if one.cells >= 140]:
            batch.give_back(slot)
            pictures.remove(slot)
        if step % 40 == 0 and len(pictures) < 2:
            pictures.append(batch.take_empty(salt="a/1"))
            reads(batch, pictures[-1], 60)
        for slot in pictures:
            if slot.cells and not slot.pending:
                answers(batch, slot)
        if step == 100:
            long = batch.take(prompt(1, 250), "b/1")[0] if asked == "a question" else batch.take_empty(salt="b/1")
            long.text = asked == "a text"
            if asked != "a question":
                reads(batch, long, 250)
        batch.step()
        if long is not None and long.cells >= 250:
            return
    raise AssertionError("it waits")


@each("unread", [True, False])
def test_a_picture_waits_for_no_request_that_an_unread_answer_holds_up(unread: bool) -> None:
    """Else a reader that takes nothing would hold up the pictures of all others, too."""
    batch, _ = batch_of(size=300, slots=3, limit=0)
    first, long, other = (batch.take_empty(salt=f"{client}/1") for client in "abc")
    reads(batch, first, 60)
    batch.step()
    answers(batch, first)
    batch.step()
    first.held = unread
    reads(batch, long, 290)
    batch.step()
    reads(batch, other, 100)
    batch.step()
    assert other.cells == 100 * unread


def vectors(*texts: list[int]) -> list[Any]:
    """The events of texts that have a context of their own."""
    context: Any = Embedding(1000)
    batch, found = Batch(context, 1, PrefixCache(0), Drafts(0)), []
    for event in embed(batch, texts, threading.Event()):
        if event is None:
            batch.step()
        else:
            found.append(event)
    return found


@each("pieces", [[120], [100], [60]])
def test_texts_without_end_hold_up_no_older_answer(pieces: list[int]) -> None:
    """Each text found the room of the answer that had just made way for the one before."""
    batch, context = batch_of(size=600, slots=3, limit=0)
    long, _ = batch.take(prompt(1, 500), "a/1")
    for step in range(400):
        for slot in batch.slots:
            if slot.opaque and slot.job is None:
                batch.give_back(slot)
        if step > 20 and not batch.seats.full:
            reads(batch, batch.take_empty(), pieces[0])
        batch.step()
        if long.output is not None:
            batch.push(long, 5)
        if long.full:
            break
    assert (long.full, long.cells) == (True, 600)
    read = sum(item.sequence == long.sequence for call in context.calls for item in call)
    assert read < 3 * 600, "it was read anew after each text"


def embeds(batch: Batch, cells: int, piece: int = 10, salt: str = "") -> Slot:
    """A slot with a text of so many cells, read piece by piece."""
    slot = batch.take_empty(salt=salt)

    def job() -> None:
        batch.seats.make_room(slot, cells - slot.cells)
        begin = slot.cells
        slot.position = slot.cells = min(begin + piece, cells)
        batch.context.decode([Item(0, at, slot.sequence, False) for at in range(begin, slot.cells)])
        if slot.cells < cells:
            slot.job = job

    slot.job = job
    return slot


@each(
    ("answers", "wanted", "cells", "slots", "piece"),
    itertools.product([False, True], [300, 450, 580], [100, 200, 300], [3, 4, 6], [10, 100]),
)
def test_texts_without_end_hold_up_no_older_request(
    answers: bool, wanted: int, cells: int, slots: int, piece: int
) -> None:
    """A text of three quarters of the context, or an answer that had made way, waited as long as others sent texts."""
    batch, _ = batch_of(size=600, slots=slots, limit=0)
    older: Slot | None = None
    ended = 0
    for step in range(1000):
        for slot in batch.slots:
            if slot is not older and slot.opaque and slot.job is None:
                assert slot.error is None
                batch.give_back(slot)
                ended += older is not None
        if older is None and step >= 50 and not batch.seats.full:
            older = batch.take(prompt(1, wanted), "v/1")[0] if answers else embeds(batch, wanted, piece)
        if step % 7 == 0 and not batch.seats.full:
            embeds(batch, cells, piece)
        batch.step()
        if older is not None and (older.output is not None or older.cells == wanted):
            break
    assert older is not None
    assert older.cells == wanted
    assert older.error is None
    assert ended < 4 * slots


@each("sizes", [[300, 300, 300], [550, 100, 580], [200, 350, 100, 250], [590, 590, 10, 10]])
def test_a_text_that_has_begun_waits_for_no_other_text(sizes: list[int]) -> None:
    """Texts began side by side that had no room together, and then waited with what they had read."""
    batch, _ = batch_of(size=600, slots=len(sizes))
    left = [(embeds(batch, cells), cells) for cells in sizes]
    for _ in range(1000):
        for slot, cells in tuple(left):
            assert slot.error is None
            assert not (slot.preempted and slot.whole)
            if slot.cells == cells:
                left.remove((slot, cells))
                batch.give_back(slot)
        if not left:
            break
        batch.step()
    assert not left


def test_a_text_waits_for_no_older_one_that_an_answer_keeps_out() -> None:
    batch, _ = batch_of(size=600, slots=4, limit=0)
    answer, _ = batch.take(prompt(1, 300), "a/1")
    decode(batch, answer)
    large, small = embeds(batch, 400), embeds(batch, 100)
    for _ in range(20):
        batch.step()
    assert (large.cells, large.preempted, small.cells) == (0, True, 100)


def test_a_text_begins_beside_the_one_that_it_let_go_first() -> None:
    batch, _ = batch_of(size=600, slots=3, limit=0)
    first = embeds(batch, 300)
    batch.step()
    large, small = embeds(batch, 400), embeds(batch, 100)
    for _ in range(5):
        batch.step()
    assert large.preempted
    assert small.preempted
    while first.job is not None:
        batch.step()
    batch.give_back(first)
    for _ in range(15):
        batch.step()
    assert (small.cells, small.job) == (100, None)
    assert 100 <= large.cells < 400


@each(("asked", "length"), itertools.product([1, 15, 30, 50], [1, 10, 40, 150]))
def test_a_question_waits_for_no_text_of_the_whole_context(asked: int, length: int) -> None:
    """It waited for five of them, minutes in a context of 4,096 tokens: those in all slots, each to its end."""
    context: Any = Embedding(600)
    context.outputs = 10
    batch, ended = Batch(context, 1, PrefixCache(0), Drafts(0), beside=4), 0
    texts = [embed(batch, [prompt(seed, 580)] * 9, threading.Event(), salt=f"{seed}/") for seed in range(6)]
    for step in range(2 * 58):
        ended += _go_on(texts)
        batch.step()
        if step == asked:
            break
    while batch.seats.full:
        ended += _go_on(texts)
        batch.step()
    question, steps, began = batch.take(prompt(9, 40), "q/")[0], 0, ended
    for token in range(length):
        while question.output is None:
            ended += _go_on(texts)
            batch.step()
            steps += 1
            assert steps < 300, "it waits"
        assert (token > 0) or steps < 8, "its first token waits"
        batch.push(question, token)
    assert ended - began <= 1 + length // 50
    batch.give_back(question)
    before = ended
    for _ in range(600):
        ended += _go_on(texts)
        batch.step()
    assert ended - before > 7, "texts go on"
    for one in texts:
        one.close()  # type: ignore[attr-defined]


def _go_on(texts: list[Iterator[Any]]) -> int:
    """Let each request for texts go on as the loop of the host does; how many texts have ended."""
    ended = 0
    for one in texts:
        while next(one) is not None:
            ended += 1
    return ended


@each("salts", [("a/1", "b/1", "c/1"), ("a/1", "a/2", "b/1"), ("", "", "")])
@each("length", [200, 300])
def test_no_answer_leaves_for_a_text_that_waits_all_the_same(salts: tuple[str, str, str], length: int) -> None:
    """A stream left at each end of another answer, for a text that had no room beside an older answer anyway."""
    batch, _ = batch_of(size=600, slots=5, limit=0)
    older, _ = batch.take(prompt(1, 150), salts[0])
    decode(batch, older)
    text = embeds(batch, 500, salt=salts[1])
    batch.step()
    stream, _ = batch.take(prompt(2, length), salts[2])
    decode(batch, stream)
    for round in range(10):
        short, _ = batch.take(prompt(3 + round, 10), "d/1")
        decode(batch, short)
        batch.give_back(short)
        batch.push(stream, 7)
        batch.step()
        assert (stream.cells, stream.output is not None) == (length + round + 1, True)
        assert (text.preempted, text.cells, text.error) == (True, 0, None)
    batch.give_back(older)
    batch.step()
    assert (text.cells, stream.cells) == (10, 0), "the text is older than the stream"


def test_an_engine_with_a_job_at_work_does_not_starve() -> None:
    """Each piece of a text waited 10 ms for readers, while another text waited for room."""
    batch, _ = batch_of(size=100, slots=3)
    unread, waits = batch.take_empty(salt="a/1"), batch.take_empty()
    batch.push(unread, *prompt(1, 40))
    decode(batch, unread)
    unread.held = True
    reads(batch, waits, 90)
    batch.step()
    batch.step()
    assert waits.preempted
    assert batch.starved
    works = batch.take_empty()
    reads(batch, works, 10)
    batch.step()
    assert works.job is None
    assert not batch.starved


ONE, OTHER = ((0, 1.0),), ((1, 0.5),)


def test_answers_with_other_adapters_never_share_a_call() -> None:
    batch, context = batch_of(slots=4)
    taken = [batch.take(prompt(seed), adapters=used)[0] for seed, used in ((1, ()), (2, ONE), (3, OTHER), (4, ONE))]
    for _ in range(24):
        batch.step()
        for slot in taken:
            if slot.output is not None:
                batch.push(slot, 5)
    of = {slot.sequence: slot.adapters for slot in taken}
    for call, applied in zip(context.calls, context.applied, strict=True):
        assert {of[item.sequence] for item in call} == {applied}
    assert all(len(slot.tokens) > 100 for slot in taken)
    written = context.applied[1 + max(at for at, call in enumerate(context.calls) if len(call) > SHORT) :]
    changes = sum(one != other for one, other in itertools.pairwise(written))
    assert changes <= len(written) // TURN


@examples(50)
@given(some.lists(some.sampled_from([(), ONE, OTHER]), min_size=2, max_size=6), some.randoms(use_true_random=False))
def test_no_set_of_adapters_waits_for_more_than_one_turn_of_each_other(
    used: list[tuple[tuple[int, float], ...]], dice: random.Random
) -> None:
    """Also while short answers of another set come and go."""
    batch, _ = batch_of(size=4000, slots=len(used))
    slots = {number: batch.take(prompt(number + 1, 20), adapters=one)[0] for number, one in enumerate(used)}
    waited = dict.fromkeys(slots, 0)
    for step in range(40):
        before = {number: len(slot.tokens) for number, slot in slots.items()}
        batch.step()
        for number, slot in slots.items():
            waited[number] = 0 if len(slot.tokens) > before[number] else waited[number] + 1
            assert waited[number] <= 2 * TURN, "three sets, each in its turn"
            if slot.output is not None:
                batch.push(slot, 5)
        gone = dice.choice(list(slots))
        if gone and slots[gone].output is None and len(slots[gone].tokens) > 20:
            batch.give_back(slots[gone])
            slots[gone] = batch.take(prompt(100 + step, 20), adapters=used[gone])[0]
            waited[gone] = 0


@each(("others", "rate"), [(1, 100.0), (2, 100.0), (3, 40.0), (3, 400.0)])
def test_a_stream_keeps_its_part_beside_prompts_with_other_adapters(others: int, rate: float) -> None:
    """One client's prompts of another set stopped it for whole calls, four in a row, and owed it nothing."""
    context = Timed(9000)
    context.rate = rate
    batch = Batch(context, 4, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    long: list[Slot] = []
    began = last = context.now
    gaps: list[float] = []
    seeds = itertools.count(2)
    while context.now < began + 40:
        for slot in (slot for slot in long if not slot.waiting):
            batch.give_back(slot)
        long = [slot for slot in long if slot.waiting]
        sets = itertools.islice(itertools.cycle([ONE, OTHER, ONE]), others - len(long))
        long += [batch.take(prompt(next(seeds), 2000), adapters=one)[0] for one in sets]
        if stream.output is not None:
            gaps.append(context.now - last)
            last = context.now
            batch.push(stream, 1)
        batch.step()
    piece = max(GAP, FIRST / rate, LEAST / rate)
    assert max(gaps) <= piece + TURN * others * TILE / rate
    own = sum(len(call) for call in context.calls if len(call) == 1) / rate
    owed = OWN / (1 + OWN) * (context.now - began) - CREDIT - piece
    assert own >= 0.8 * owed > 0
    assert sum(map(len, context.calls)) > 1000, "the prompts are read, too"


@each(("others", "rate"), itertools.product([1, 2, 3], [30.0, 100.0, 400.0]))
def test_a_short_prompt_waits_for_a_piece_of_each_other_set_of_adapters(others: int, rate: float) -> None:
    """It waited for four calls of each other set, each as large as a batch."""
    context = Timed(9000)
    context.rate = rate
    batch = Batch(context, 4, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    sets = [ONE, OTHER, ((1, 2.0),)][:others]
    for seed, one in enumerate(sets, start=2):
        batch.take(prompt(seed, 2000), adapters=one)
    for _ in range(2 * others):
        batch.step()
    began = context.now
    short, _ = batch.take(prompt(1, 50))
    decode(batch, short)
    piece = max(GAP, LEAST / rate)
    assert context.now - began <= (others + 1) * piece + 50 / rate


class Slower(Timed):
    """Each adapter makes a token take two and a half times as long."""

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        self.now += len(wanted) * (2.5 ** len(self.active) - 1) / self.rate
        return super().decode(wanted)


@each("sets", [[(), ONE], [ONE, ()], [(), (), ONE], [(), ONE, OTHER], [ONE, ONE, ()], [(), ((0, 1.0), (1, 1.0))]])
def test_a_piece_is_as_long_as_its_own_adapters_take(sets: list[tuple[tuple[int, float], ...]]) -> None:
    """Sets change with each piece; one clock for all of them made a piece of the slow ones too long."""
    context = Slower(20_000)
    context.rate = 200.0
    batch = Batch(context, 4, PrefixCache(0), Drafts(0, context.clock))  # type: ignore[arg-type]
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    long = [batch.take(prompt(seed, 4000), adapters=one)[0] for seed, one in enumerate(sets, start=2)]
    calls: list[float] = []
    while all(slot.waiting for slot in long):
        if stream.output is not None:
            batch.push(stream, 1)
        began = context.now
        batch.step()
        calls.append(context.now - began)
    assert len(calls) > 20
    slowest = context.rate / 2.5 ** max(map(len, sets))
    assert max(calls[len(calls) // 2 :]) <= max(GAP + 0.1, LEAST / slowest)
    assert max(calls) <= max(GAP + 0.1, FIRST / slowest)


@each("slots", [3, 4, 6])
def test_a_set_whose_prompts_wait_for_each_other_has_no_turn_of_another(slots: int) -> None:
    """The third prompt of a set got no tokens, and its wait gave the set one turn after the other."""
    batch, _ = batch_of(size=20_000, slots=slots)
    stream, _ = batch.take(prompt(1, 10))
    decode(batch, stream)
    for seed in range(2, slots + 1):
        batch.take(prompt(seed, 3000), adapters=ONE)
    said, steps = 0, 0
    while said < 10:
        if stream.output is not None:
            said += 1
            batch.push(stream, 1)
        batch.step()
        steps += 1
        assert steps <= 10 * (TURN + 1)


class Saved(bytearray):
    """A state that knows which adapters made each of its cells."""

    made: list[tuple[tuple[int, float], ...]]


class AdaptedContext(CountingContext):
    """Keeps, beside the tokens of every sequence, the adapters with which each was decoded."""

    def __init__(self, size: int, *, cuttable: bool) -> None:
        super().__init__(size, cuttable=cuttable)
        self.made: dict[int, list[tuple[tuple[int, float], ...]]] = {}

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        if done := super().decode(wanted):
            for item in wanted:
                self.made.setdefault(item.sequence, []).append(self.active)
        return done

    def clear(self, sequence: int) -> None:
        super().clear(sequence)
        self.made.pop(sequence, None)

    def cut(self, sequence: int, kept: int) -> bool:
        if done := super().cut(sequence, kept):
            del self.made.setdefault(sequence, [])[kept:]
        return done

    def copy(self, source: int, target: int, length: int) -> None:
        super().copy(source, target, length)
        self.made[target] = self.made[source][:length]

    def save(self, sequence: int) -> Saved:
        data = Saved(super().save(sequence))
        data.made = list(self.made[sequence])
        return data

    def restore(self, sequence: int, data: Any) -> bool:
        if done := super().restore(sequence, data):
            self.made[sequence] = list(data.made)
        return done


@examples(60)
@given(
    some.lists(
        some.tuples(some.integers(0, 4), some.integers(0, 40), some.integers(0, 6), some.integers(0, 2)), max_size=25
    ),
    some.integers(1, 4),
    some.booleans(),
    some.sampled_from([160, 400, 2000]),
)
def test_every_token_that_an_answer_reads_was_decoded_with_its_adapters(
    asked: list[tuple[int, int, int, int]], slots: int, cuttable: bool, size: int
) -> None:
    """Slots share, copy, save, restore and preempt meanwhile."""
    context: Any = AdaptedContext(size, cuttable=cuttable)
    batch, sets = Batch(context, slots, PrefixCache(500, whole=not cuttable)), [(), ONE, OTHER]
    waiting, running = list(asked), list[tuple[Slot, int]]()
    while waiting or running:
        while waiting and len(running) < slots:
            seed, length, count, used = waiting.pop()
            tokens = [*prompt(seed, 40), *prompt(seed + 9, length)]
            if len(tokens) < size:
                slot, _ = batch.take(tokens, str(used), sets[used])
                running.append((slot, len(tokens) + count))
        for slot, last in list(running):
            assert set(context.made.get(slot.sequence, [])) <= {slot.adapters}
            if slot.full or (slot.output is not None and len(slot.tokens) >= last):
                batch.give_back(slot)
                running.remove((slot, last))
            elif slot.output is not None:
                batch.push(slot, 3)
        if running:
            batch.step()
        else:
            list(batch.idle_work())


def test_a_prompt_is_held_for_its_reader_also_when_it_starts_over() -> None:
    batch, _ = batch_of(size=60)
    first, _ = batch.take(prompt(1, 30))
    held, _ = batch.take(prompt(2, 25))
    decode(batch, held)
    held.held = True
    while not held.preempted:
        batch.push(first, 1)
        batch.step()
    batch.give_back(first)
    assert not held.preempted
    batch.step()
    assert held.output is None, "later steps would overwrite its logits"
    held.held = False
    batch.step()
    assert held.output is not None


@each(
    ("age", "waits"),
    [(age, waits) for age in ("older", "younger") for waits in ("pauses first", "is preempted first", "is full")],
)
def test_a_reader_that_takes_nothing_keeps_no_answer_of_another_waiting(age: str, waits: str) -> None:
    """It kept its cells for the ten seconds after which it is cut, and a younger answer stood still."""
    batch, context = batch_of(size=130, slots=2, limit=0)
    prompts = {False: prompt(1, 60), True: prompt(2, 60)}
    taken = [batch.take(prompts[number == 0], "ab"[number] + "/1")[0] for number in range(2)]
    unread, other = taken if age == "older" else reversed(taken)
    unread.used, other.used = (1, 2) if age == "older" else (2, 1)
    batch.step()
    said = 0
    while waits == "is preempted first" and not other.preempted and not unread.preempted:
        batch.push(unread, said)
        said += 1
        decode(batch, unread)
    unread.full, unread.held = waits == "is full", True
    before = [*unread.tokens, *unread.pending]
    for number in range(40):
        batch.push(other, number)
        for _ in range(3):
            batch.step()
        assert other.output is not None, number
    assert not batch.starved
    assert not other.full
    unread.held = False
    batch.push(unread, 7)
    batch.give_back(other)
    decode(batch, unread)
    assert context.held[unread.sequence] == [*before, 7], "it has lost nothing"
    assert not unread.full


def test_a_text_takes_the_room_of_an_answer_that_waits_for_its_reader() -> None:
    batch, _ = batch_of(size=600, slots=3, limit=0)
    unread, _ = batch.take(prompt(1, 300), "a/1")
    other, _ = batch.take(prompt(2, 250), "b/1")
    decode(batch, unread)
    decode(batch, other)
    unread.held = True
    text = batch.take_empty(salt="c/1")
    reads(batch, text, 200)
    batch.step()
    assert (text.job, text.error, text.cells) == (None, None, 200)
    assert not other.preempted


def test_a_text_and_an_answer_whose_reader_pauses_for_a_moment_both_go_on() -> None:
    """The answer had left for the text, which came behind it. Both waited for another one to end, for ever."""
    batch, context = batch_of(size=600, slots=2, limit=0)
    answer, _ = batch.take(prompt(1, 300), "a/1")
    decode(batch, answer)
    text = embeds(batch, 400, piece=100, salt="b/1")
    batch.step()
    answer.held = True
    batch.step()
    assert answer.preempted
    answer.held = False
    batch.push(answer, 7)
    for _ in range(4):
        batch.step()
    assert context.held[answer.sequence] == [*prompt(1, 300), 7]
    batch.give_back(answer)
    while text.job is not None:
        batch.step()
    assert text.cells == 400


@each("waits", ["an answer", "a text", "nobody"])
def test_a_batch_whose_slots_all_wait_for_their_readers_starves_who_waits_for_a_slot(waits: str) -> None:
    """Nothing said so. The engine's thread went round and round, and no reader was cut."""
    batch, _ = batch_of(slots=2)
    unread = [batch.take(prompt(number, 50))[0] for number in range(2)]
    batch.step()
    for slot in unread:
        slot.held = True
    one = (batch.seats.until_free if waits == "an answer" else batch.seats.until_turn)(threading.Event())
    if waits != "nobody":
        next(one)
    batch.step()
    assert batch.starved is (waits != "nobody")
    if waits != "nobody":
        one.close()  # type: ignore[attr-defined]
        assert not batch.starved, "nobody waits any more, and no step comes that says so"
    assert [slot.cells for slot in unread] == [50, 50]
    unread[0].held = False
    batch.push(unread[0], 1)
    batch.step()
    assert not batch.starved


def test_a_request_that_is_cancelled_waits_for_no_slot() -> None:
    """Texts went on to wait for it, and a reader that paused was cut for it."""
    batch, _ = batch_of(slots=1)
    unread, _ = batch.take(prompt(1))
    decode(batch, unread)
    unread.held = True
    cancel = threading.Event()
    waits = batch.seats.until_free(cancel)
    next(waits)
    batch.step()
    assert batch.starved
    cancel.set()
    with pytest.raises(Cancelled):
        next(waits)
    assert (batch.seats.awaited, batch.starved) == (0, False)


@each("ends", ["the text", "its reader"])
def test_a_text_that_waited_for_an_answer_begins_when_that_pauses(ends: str) -> None:
    """It came behind the answer that had left for it: both waited for the other to end, for ever."""
    batch, context = batch_of(size=600, slots=2, limit=0)
    unread, _ = batch.take(prompt(1, 300), "a/1")
    decode(batch, unread)
    text = embeds(batch, 400, piece=100, salt="b/1")
    batch.step()
    assert (text.preempted, text.cells) == (True, 0)
    unread.held = True
    for _ in range(4):
        batch.step()
    assert text.cells == 300
    if ends == "its reader":
        unread.held = False
        batch.push(unread, 7)
    while text.job is not None:
        batch.step()
    batch.give_back(text)
    if ends == "the text":
        unread.held = False
        batch.push(unread, 7)
    decode(batch, unread)
    assert context.held[unread.sequence] == [*prompt(1, 300), 7]
