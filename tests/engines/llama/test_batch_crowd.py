"""Answers, texts, pictures and readers that pause, in one full context: each comes to its end, and loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
from hypothesis import given
from hypothesis import strategies as some
from support.counting import CountingContext, prompt
from support.examples import examples
from support.seeing import looks, seen

from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.engines.llama.embed import embed
from edgeserve.engines.llama.slot import Slot
from edgeserve.engines.llama.swapper import UNREAD

SIZE = 300
ROUNDS = 6000
"""Rounds in which the largest crowd has long ended."""
ROUND_SECONDS = 0.05


class Embedding(CountingContext):
    def embed(self, tokens: list[int], position: int, sequence: int) -> Any:
        assert self.decode([Item(token, position + at, sequence, True) for at, token in enumerate(tokens)])
        return numpy.ones((len(tokens), 2), "float32")


def answering(batch: Batch, length: int, said: int, salt: str, pauses: Mapping[int, int], forced: int) -> Iterator[int]:
    """An answer; yields the rounds for which its reader pauses, 0 for a step. Its tokens are all in the context."""
    yield from (0 for _ in batch.seats.until_free(threading.Event()))
    slot, _ = batch.take(prompt(length, length), salt)
    told = [token % 250 for token in range(min(said, SIZE - length))]
    try:
        yield from saying(batch, slot, told, pauses, forced)
        assert slot.tokens == [*prompt(length, length), *told]
        assert batch.context.held[slot.sequence] == slot.tokens  # type: ignore[attr-defined]
    finally:
        batch.give_back(slot)


def looking(
    batch: Batch, sizes: Sequence[int], said: int, salt: str, pauses: Mapping[int, int], forced: int
) -> Iterator[int]:
    """As ``answering``, for a prompt with pictures. It may end early: see ``full``, and for its reader."""
    yield from (0 for _ in batch.seats.until_free(threading.Event()))
    slot = batch.take_empty(salt=salt)
    try:
        yield from (0 for _ in looks(batch, slot, sizes))
        told = [token % 250 for token in range(min(said, SIZE - len(seen(sizes))))]
        yield from saying(batch, slot, told, pauses, forced)
        ended = slot.full or slot.error is not None
        assert ended or batch.context.held[slot.sequence] == [*seen(sizes), *told]  # type: ignore[attr-defined]
    finally:
        batch.give_back(slot)


def saying(batch: Batch, slot: Slot, told: list[int], pauses: Mapping[int, int], forced: int) -> Iterator[int]:
    """Say these tokens, so many in a step. Ends where the slot is full."""
    for at in range(0, len(told) + forced, forced):
        while slot.output is None and not slot.full:
            yield 0
        if slot.full:
            check_full(batch, slot, at)
        if slot.full or at >= len(told):
            return
        slot.held = at in pauses
        if slot.held:
            yield pauses[at]
        slot.held = False
        if slot.error is not None:
            assert slot.opaque
            assert pauses[at] * ROUND_SECONDS >= UNREAD, "its reader did not pause for long"
            return
        batch.push(slot, *told[at : at + forced])


def check_full(batch: Batch, slot: Slot, said: int) -> None:
    """An answer ends early only where answers about pictures have all of the context, and it is the youngest."""
    pictures = [one for one in batch.slots if one.busy and one.opaque and not one.reads_texts]
    assert said, "its prompt is refused"
    assert slot.opaque, "it ends early"
    assert sum(one.cells + len(one.pending) for one in pictures) > SIZE, "it has room"
    assert all(one.used <= slot.used for one in pictures), "it is older"


def reading(batch: Batch, lengths: list[int], salt: str, cancel: threading.Event) -> Iterator[int]:
    """A request for vectors of so many texts; yields 0 for a step."""
    events = list(map(prompt, range(len(lengths)), lengths))
    yield from (0 for event in embed(batch, events, cancel, (), salt) if event is None)


def test_an_unread_answer_about_a_picture_keeps_no_room_from_others_for_long() -> None:
    """Short answers about pictures went on beside it, and an older answer of another client waited without end."""
    context: Any = Embedding(SIZE)
    now = 0
    batch = Batch(context, 2, PrefixCache(0), Drafts(0, lambda: now * ROUND_SECONDS), beside=4)
    unread, older = looking(batch, (20, -160), 40, "a/1", {20: ROUNDS}, 1), answering(batch, 100, 80, "b/1", {}, 1)
    short, paused = iter([0]), 0
    for now in range(600):
        paused = paused or next(unread)
        if now > 5 and next(older, None) is None:
            break
        if next(short, None) is None:
            short = looking(batch, (10, -10), 20, "c/1", {}, 1)
        batch.step()
    assert paused
    assert next(older, None) is None, "it waits"
    assert next(unread, None) is None


tokens = some.sampled_from([20, 100, 150, 200, 295])
clients = some.sampled_from(["a/1", "a/2", "b/1", "c/1"])
pausing = some.dictionaries(some.integers(0, 29), some.sampled_from([1, 5, 60]), max_size=2)
forcing = some.sampled_from([1, 1, 1, 9])
answers = some.tuples(some.just("answer"), tokens, some.sampled_from([1, 30, 150]), clients, pausing, forcing)
texts = some.tuples(some.just("texts"), some.lists(tokens, min_size=1, max_size=4), clients)
chunks = some.sampled_from([(20, -60), (10, -20, 30), (-90,), (-40, 20, -40, 50), (60, -100, 60, -40), (5, -280, 10)])
pictures = some.tuples(some.just("picture"), chunks, some.sampled_from([1, 30, 150]), clients, pausing, forcing)
begins, leaves = some.integers(0, 30), some.one_of(some.none(), some.integers(1, 100))


@examples(200)
@given(
    some.lists(some.tuples(begins, leaves, some.one_of(answers, texts, pictures)), min_size=2, max_size=10),
    some.sampled_from([(1, 4), (2, 4), (1, 1), (1, 0), (4, 4)]),
    some.sampled_from([5, 17, 40]),
)
def test_each_comes_to_its_end(coming: list[tuple[int, int | None, Any]], slots: tuple[int, int], piece: int) -> None:
    context: Any = Embedding(SIZE)
    context.outputs = piece
    now = 0
    batch = Batch(context, slots[0], PrefixCache(0), Drafts(0, lambda: now * ROUND_SECONDS), beside=slots[1])
    waiting, going = sorted(coming, key=lambda one: one[0]), list[list[Any]]()
    for now in range(ROUNDS):  # the clock reads it
        while waiting and waiting[0][0] <= now:
            _, leaving, (kind, *rest) = waiting.pop(0)
            cancel = threading.Event()
            kinds = {"answer": answering, "picture": looking}
            events = kinds[kind](batch, *rest) if kind in kinds else reading(batch, *rest, cancel)
            going.append([events, now + (leaving or ROUNDS), 0])
        for one in tuple(going):
            events, leaving, paused = one
            if now >= leaving:
                events.close()
                going.remove(one)
            elif paused:
                one[2] -= 1
            elif (wanted := next(events, None)) is None:
                going.remove(one)
            else:
                one[2] = wanted
        if not waiting and not going:
            break
        batch.step()
    assert not going, "they wait for each other"
    assert not batch.busy
    assert not batch.seats.awaited
