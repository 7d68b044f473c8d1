"""Adapters that make a model compute NaN end their own answer alone, whoever shares the context and the call."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy
from hypothesis import given
from hypothesis import strategies as some
from support.counting import CountingContext
from support.examples import examples
from support.seeing import Seeing

from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.chances import SURE
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.drafts import Drafts, Guess
from edgeserve.engines.llama.embed import embed
from edgeserve.engines.llama.feed import feed
from edgeserve.engines.llama.options import LONGEST_DRAFT
from edgeserve.engines.llama.projector import Chunk
from edgeserve.engines.llama.slot import Slot
from edgeserve.errors import InvalidRequest

SIZE, NAN, ROUNDS = 400, 255, 4000
ONE: Active = ((0, 40.0),)


class State(bytearray):
    spoilt = False


class Overflowing(CountingContext):
    """The token ``NAN`` makes NaN with any adapters. Cells of NaN spoil all calls until they are wiped, freed or not.

    ``spoilt_cells``: the sequences that have such cells, and -1 for those that are free again. ``skips``: no token
    reads those behind it, as with flash attention.
    """

    skips = False

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.model = SimpleNamespace(path="model.gguf")
        self.spoilt_cells = set[int]()

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        if not super().decode(wanted):
            return False
        if self.spoilt_cells or (self.active and any(item.token == NAN for item in wanted)):
            self.spoilt_cells |= {item.sequence for item in wanted}
        return True

    def embed(self, tokens: list[int], position: int, sequence: int) -> Any:
        assert self.decode([Item(token, position + at, sequence, True) for at, token in enumerate(tokens)])
        return numpy.full((len(tokens), 2), numpy.nan if self.spoilt_cells else 1.0, "float32")

    def spoilt(self, output: int) -> bool:
        assert self.calls[-1][output].output, "no logits"
        read = self.calls[-1][: output + 1]
        return bool(self.spoilt_cells) and (not self.skips or any(item.token == NAN for item in read))

    def clear(self, sequence: int) -> None:
        super().clear(sequence)
        self.spoilt_cells = {-1 if one == sequence else one for one in self.spoilt_cells}

    def cut(self, sequence: int, kept: int) -> bool:
        self.spoilt_cells = {-1 if one == sequence else one for one in self.spoilt_cells}
        return super().cut(sequence, kept)

    def wipe(self) -> None:
        self.held.clear()
        self.spoilt_cells.clear()

    def save(self, sequence: int, memory: Any = None) -> Any:
        state = State(super().save(sequence))
        state.spoilt = sequence in self.spoilt_cells
        return state

    def restore(self, sequence: int, data: Any) -> bool:
        back = super().restore(sequence, data)
        self.spoilt_cells |= {sequence} if back and data.spoilt else set()
        return back


def answering(batch: Batch, salt: str, adapters: Active, length: int, said: list[int]) -> Iterator[None]:
    yield from batch.seats.until_free(threading.Event())
    slot, _ = batch.take([len(salt)] * length, f"{salt}/{adapters}", adapters)
    try:
        yield from saying(batch, slot, said)
        assert slot.tokens == [*[len(salt)] * length, *said]
        assert batch.context.held[slot.sequence] == slot.tokens  # type: ignore[attr-defined]
    finally:
        batch.give_back(slot)


def looking(batch: Batch, salt: str, adapters: Active, pictures: list[int], said: list[int]) -> Iterator[None]:
    """``pictures``: the token of which each consists."""
    yield from batch.seats.until_free(threading.Event())
    slot = batch.take_empty(adapters, salt)
    chunks = [Chunk(0, 9, (7,) * 9), *(Chunk(one, 12, None) for one in pictures), Chunk(0, 3, (7,) * 3)]
    seeing: Any = Seeing()
    try:
        yield from feed(batch, slot, chunks, seeing, threading.Event())
        yield from saying(batch, slot, said)
        assert slot.full or batch.context.held[slot.sequence][-len(said) :] == said  # type: ignore[attr-defined]
    finally:
        batch.give_back(slot)


def saying(batch: Batch, slot: Slot, said: list[int]) -> Iterator[None]:
    for token in (*said, None):
        while slot.output is None and not slot.full:
            yield None
            if slot.error is not None:
                raise slot.error
        if slot.full:
            return
        if token is not None:
            batch.push(slot, token)


def reading(batch: Batch, salt: str, adapters: Active, text: list[int]) -> Iterator[None]:
    yield from (None for event in embed(batch, [text], threading.Event(), adapters, salt) if event is None)


def batch_of(drafts: Drafts | None = None) -> tuple[Batch, Overflowing]:
    context: Any = Overflowing(SIZE)
    context.outputs = 20
    return Batch(context, 4, PrefixCache(100), drafts, beside=2), context


def drive(batch: Batch, coming: list[tuple[int, int, Iterator[None]]]) -> dict[int, Exception]:
    """Let each begin and leave at its rounds. Returns the errors, by their numbers."""
    going, errors = dict(enumerate(coming)), dict[int, Exception]()
    for now in range(ROUNDS):
        for number, (begins, leaves, run) in tuple(going.items()):
            if now == leaves:
                run.close()
                del going[number]
            elif now >= begins:
                try:
                    next(run)
                except StopIteration:
                    del going[number]
                except InvalidRequest as error:
                    errors[number] = error
                    del going[number]
        if not going:
            break
        batch.step()
    assert not going, "they wait for each other"
    return errors


said = some.lists(some.integers(0, 9), min_size=1, max_size=30)
kinds = some.one_of(
    some.tuples(some.just(answering), some.integers(1, 90), said),
    some.tuples(some.just(looking), some.lists(some.just(3), min_size=1, max_size=4), said),
    some.tuples(some.just(reading), some.lists(some.integers(0, 9), min_size=1, max_size=60)),
)
sets = some.sampled_from([(), (), ONE, ONE, ((0, 1.0),), ((1, 1.0),)])
comings = some.tuples(some.integers(0, 20), some.one_of(some.just(ROUNDS), some.integers(1, 60)), sets, kinds)
wilds = some.tuples(some.integers(0, 20), some.one_of(some.just(ROUNDS), some.integers(1, 60)), kinds, some.integers(0))


@examples(100)
@given(some.lists(comings, min_size=1, max_size=6), some.lists(wilds, min_size=1, max_size=3))
def test_nobody_else_hears_of_it(innocent: list[Any], wild: list[Any]) -> None:
    batch, context = batch_of()
    coming = []
    for number, (begins, leaves, adapters, (kind, *rest)) in enumerate(innocent):
        coming.append((begins, begins + leaves, kind(batch, f"client{number}", adapters, *rest)))
    for number, (begins, leaves, (kind, *rest), at) in enumerate(wild):
        chosen = rest[0] if kind is looking and at % 2 else rest[-1]
        chosen[at % len(chosen)] = NAN
        coming.append((begins, begins + leaves, kind(batch, f"wild{number}", ONE, *rest)))
    errors = drive(batch, coming)
    assert not [number for number in errors if number < len(innocent)]
    stayed = [number for number in range(len(innocent), len(coming)) if coming[number][1] >= ROUNDS]
    assert set(stayed) <= set(errors), "it computed with NaN"
    assert not context.spoilt_cells, "the next one reads them"
    assert not batch.busy


def test_a_refused_draft_leaves_no_spoilt_cells() -> None:
    drafts = Drafts(LONGEST_DRAFT)
    for size in (1, 64):
        drafts.pace.note(size, 1.0)  # a larger call takes no longer: every draft pays
    batch, context = batch_of(drafts)
    context.skips = True
    slot, _ = batch.take([1, 2, 3], "a/1", ONE)
    batch.step()
    batch.push(slot, 4, guess=Guess([5, NAN, 5], SURE, 0))
    batch.step()
    assert NAN in (item.token for item in context.calls[-1])
    batch.give_back(slot)
    assert not context.spoilt_cells


def test_one_wild_answer_after_the_other_makes_nobody_read_anew_time_and_again() -> None:
    """Each that came shared the calls of the innocent one again, which read all of its tokens for each of its own."""
    batch, context = batch_of()

    def wild() -> Iterator[None]:
        for number in range(100):
            slot, _ = batch.take([1, NAN], f"wild/{number}", ONE)
            try:
                yield from saying(batch, slot, [])
            except InvalidRequest:
                batch.give_back(slot)

    drive(batch, [(0, ROUNDS, answering(batch, "innocent", ONE, 150, [1] * 30)), (3, ROUNDS, wild())])
    assert sum(item.token == len("innocent") for call in context.calls for item in call) <= 2 * 150
