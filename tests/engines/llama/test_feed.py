"""Prompts with pictures in a context that others fill, too. Their answers cannot leave it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
from numpy import ones
from support.cases import each
from support.counting import batch_of, prompt
from support.seeing import looks, seen

from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.embed import embed
from edgeserve.engines.llama.slot import Slot
from edgeserve.errors import InvalidRequest

TWO = [(20, -60), (-60, 20), (10, -30, 10, -30), (-80,)]


def watching(size: int, sizes: tuple[int, ...], slots: int = 3) -> tuple[Batch, Slot]:
    """A batch with an answer about a picture: its prompt is read."""
    batch, _ = batch_of(size=size, slots=slots, limit=0)
    slot = batch.take_empty(salt="a/1")
    for _ in looks(batch, slot, sizes):
        batch.step()
    assert slot.output is not None
    return batch, slot


@each("sizes", TWO)
def test_a_prompt_beside_an_answer_that_grows_begins_anew_behind_it(sizes: tuple[int, ...]) -> None:
    """It was refused with 503, or the older answer ended early for it."""
    batch, old = watching(200, (-100,))
    young = batch.take_empty(salt="b/1")
    reading = looks(batch, young, sizes)
    next(reading)
    batch.step()
    assert young.whole == 80, "it has begun"
    batch.push(old, *[7] * 45)
    for _ in range(100):
        if old.full:
            break
        assert next(reading, "read") is None, "it is read beside the answer"
        batch.step()
        if old.output is not None:
            batch.push(old, 7)
    assert (old.cells, young.cells) == (200, 0), "the answer has all of the context"
    batch.give_back(old)
    for _ in range(20):
        if next(reading, "read") is not None:
            break
        batch.step()
    assert batch.context.held == {young.sequence: seen(sizes)}  # type: ignore[attr-defined]
    assert (young.output is not None, young.full, young.error) == (True, False, None)


@each("sizes", TWO)
def test_an_answer_waits_for_an_older_prompt_and_ends_no_earlier_for_it(sizes: tuple[int, ...]) -> None:
    """It took the room of what the older one had still to read. Then one of them ended early."""
    batch, _ = batch_of(size=200, slots=2, limit=0)
    old, young = batch.take_empty(salt="a/1"), batch.take_empty(salt="b/1")
    first, second = looks(batch, old, sizes), looks(batch, young, (-100,))
    next(first)
    next(second)
    batch.step()
    for _ in second:
        batch.step()
    for _ in range(20):
        if young.output is not None:
            batch.push(young, *[7] * 30)
        batch.step()
        assert not young.full, "it ends early"
        if next(first, "read") is not None:
            break
    assert batch.context.held[old.sequence] == seen(sizes)  # type: ignore[attr-defined]


def test_pictures_that_wait_behind_each_other_keep_no_text_out() -> None:
    """Four clients that ask about pictures without end kept a text from a slot for ever."""
    batch, context = batch_of(size=300, slots=8, limit=0)
    context.embed = lambda tokens, position, sequence: ones((len(tokens), 2), "float32")  # type: ignore[attr-defined]

    def asking(sizes: tuple[int, ...], salt: str) -> Iterator[None]:
        while True:
            slot = batch.take_empty(salt=salt)
            yield from looks(batch, slot, sizes)
            for token in range(30):
                batch.push(slot, token)
                while slot.output is None:
                    yield
            batch.give_back(slot)

    streams = [asking(sizes, f"{salt}/1") for salt, sizes in zip("abcd", [(-10, 240)] * 4, strict=True)]
    events = embed(batch, [prompt(1, 100)], threading.Event(), salt="d/1")
    for round_ in range(1000):
        for one in streams:
            next(one)
        if round_ > 50 and next(events, "read") is not None:
            return
        batch.step()
    pytest.fail("the text has no slot")


def test_a_prompt_that_is_cancelled_is_read_no_further() -> None:
    batch, cancel = batch_of(size=200)[0], threading.Event()
    slot = batch.take_empty()
    reading = looks(batch, slot, (20, -60, 20), cancel)
    while not slot.cells:
        next(reading)
        batch.step()
    cancel.set()
    with pytest.raises(StopIteration):
        next(reading)
    assert slot.cells == 20
    batch.give_back(slot)
    assert (slot.cells, batch.context.held) == (0, {})  # type: ignore[attr-defined]


@pytest.mark.parametrize("adapters", [((0, 100.0),), ()])
@pytest.mark.timeout(10)
def test_a_picture_that_overflows_is_found_before_it_can_be_cancelled(
    adapters: Active, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that nobody had looked at were left to the next answers. ``()``: another's adapters spoilt this prompt."""
    batch, context = batch_of(size=300)
    other = batch.take_empty(adapters=((0, 100.0),))
    batch.push(other, *range(40))
    slot = batch.take_empty(adapters=adapters)
    monkeypatch.setattr(context, "spoilt", lambda output: context.held.get(slot.sequence) == [0] * 60)
    reading = looks(batch, slot, (-60, 20))
    with contextlib.suppress(InvalidRequest):
        while next(reading, "read") is None:
            batch.step()
            if context.wiped:
                monkeypatch.undo()
    assert context.wiped == 1
    assert (other.error is None, slot.error is None) == (bool(adapters), not adapters)
    assert adapters or context.held[slot.sequence] == seen((-60, 20)), "it begins anew"


def test_a_picture_waits_for_no_further_ones_of_a_client_that_has_one_in_the_context() -> None:
    """A question of 39 tokens waited 35 s: for three prompts of another client, of which each took the context."""
    batch, _ = batch_of(size=300, slots=8, limit=0)
    slots = [batch.take_empty(salt=f"{client}/1") for client in "aaaab"]
    crowd, small = [looks(batch, slot, (-20, 220)) for slot in slots[:4]], looks(batch, slots[4], (10, -10))
    for one in crowd:
        next(one)
    batch.step()
    for _ in range(20):
        for one in crowd:
            next(one, "read")
        if next(small, "read") is not None:
            break
        batch.step()
    assert slots[4].output is not None, "it fits beside the first of them"
    assert [slot.cells > 0 for slot in slots[:4]] == [True, False, False, False]


@each("sizes", [(10, -10, 10), (10, -10), (-10, 10, -10), (-10, 20)])
def test_a_question_about_a_picture_waits_for_few_pieces_of_a_long_prompt(sizes: tuple[int, ...]) -> None:
    """The room, the text before the picture, the picture and the text behind it each waited for a piece of their own.

    With 22 ms a token a piece took 4 to 5 s, and the question's first token 11 s.
    """
    batch, _ = batch_of(size=4000, slots=2, limit=0)
    long, slot = batch.take_empty(salt="a/1"), batch.take_empty(salt="b/1")
    batch.push(long, *range(3000))
    reading, steps = looks(batch, slot, sizes), 0
    while next(reading, "read") is None:
        batch.step()
        steps += 1
    assert steps == 1 + sum(size < 0 for size in sizes)
    assert batch.context.held[slot.sequence] == seen(sizes)  # type: ignore[attr-defined]
    assert 0 < long.cells < 3000, "both are read in each step"


@each("size", [40, 100, 250])
def test_a_text_of_a_client_with_an_answer_about_a_picture_has_its_turn_among_texts_of_others(size: int) -> None:
    """Their short texts went before it without end, as long as the answer lasted."""
    batch, context = batch_of(size=400, slots=6, limit=0)
    context.embed = lambda tokens, position, sequence: ones((len(tokens), 2), "float32")  # type: ignore[attr-defined]
    picture = batch.take_empty(salt="a/1")
    for _ in looks(batch, picture, (-100,)):
        batch.step()
    texts = [prompt(number, 120) for number in range(200)]
    others = [embed(batch, texts, threading.Event(), salt=f"{key}/1") for key in "bcd"]
    for one in others:
        next(one)
    batch.step()
    own = embed(batch, [prompt(9, size)], threading.Event(), salt="a/1")
    for _ in range(30):
        for one in others:
            next(one)
        if next(own) is not None:
            return
        batch.step()
    pytest.fail("no room in 30 steps")


def test_texts_wait_for_no_further_ones_of_a_client_that_has_one_in_the_context() -> None:
    """Two words of another client waited 68 s behind four texts of the whole context."""
    batch, context = batch_of(size=1000, slots=8, limit=0)
    context.embed = lambda tokens, position, sequence: ones((len(tokens), 2), "float32")  # type: ignore[attr-defined]
    long = [prompt(number, 900) for number in range(3)]
    lists = [embed(batch, long, threading.Event(), salt="a/1") for _ in range(4)]
    for one in lists:
        next(one)
    batch.step()
    event, other = None, embed(batch, [prompt(9, 10), prompt(9, 800)], threading.Event(), salt="b/1")
    for _ in range(3):
        assert [next(one) for one in lists] == [None] * 4, "the first text of the lists is still read"
        if (event := next(other)) is not None:
            break
        batch.step()
    assert event is not None, "it fits beside the first of them"
    for _ in range(12):
        for one in lists:
            next(one)
        if next(other) is not None:
            return
        batch.step()
    pytest.fail("one that does not fit has its turn before the last of them")
