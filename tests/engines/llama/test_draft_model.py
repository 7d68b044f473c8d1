"""A draft model: it follows its slots, guesses for several of them, and costs nothing where it does not pay."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from support.spelling import PIECES, DiceSampler, draft_model, slope, spell, spelling_batch, usual

from edgeserve.engines.llama.chances import DRAFTED
from edgeserve.engines.llama.draft_model import DraftModel
from edgeserve.engines.llama.drafting import CAUGHT_UP
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.engines.llama.slot import Slot
from edgeserve.messages import ChatRequest


def slot_of(sequence: int, tokens: Sequence[int], pending: Sequence[int], used: int = 1) -> Slot:
    slot = Slot(sequence)
    slot.busy, slot.used = True, used
    slot.hold(tokens)
    slot.pending = list(pending)
    return slot


def usual_after(tokens: Sequence[int], count: int) -> list[int]:
    text = list(tokens)
    for _ in range(count):
        text.append(usual(text))
    return text[len(tokens) :]


def test_it_guesses_for_several_slots_in_each_call() -> None:
    model, context = draft_model()
    slots = [slot_of(0, [1, 2, 3], [4]), slot_of(1, [5, 6], [7, 8])]
    assert model.guess([(slots[0], 3), (slots[1], 2)]) == [usual_after([1, 2, 3, 4], 3), usual_after([5, 6, 7, 8], 2)]
    assert [len(call) for call in context.calls] == [8, 2, 1]


def test_it_reads_again_only_what_differs() -> None:
    model, context = draft_model()
    slot = slot_of(0, [1, 2, 3], [4])
    guessed = model.guess([(slot, 3)])[0]
    slot.hold([1, 2, 3, 4, guessed[0]])
    slot.pending = [9]
    assert model.behind(slot) == 1
    model.guess([(slot, 1)])
    assert context.held[0] == [1, 2, 3, 4, guessed[0], 9]
    assert [len(call) for call in context.calls] == [4, 1, 1, 1]
    assert model.behind(slot_of(0, [1, 2], [7, 7, 7], used=2)) == 3, "another answer in the slot"


def test_a_guess_ends_with_the_answer_and_within_the_vocabulary() -> None:
    model, context = draft_model()
    for end, count in ((0, 1), (len(PIECES), 0)):  # the token that ends an answer, and one that the model lacks
        context.likeliest = lambda output, end=end: end  # type: ignore[method-assign, misc]
        assert [len(one) for one in model.guess([(slot_of(0, [1], [2]), 4)])] == [count]


def test_slots_beyond_one_call_wait_for_the_next() -> None:
    """llama.cpp takes no more tokens in a call: its failure would end all answers."""
    model, context = draft_model(4000)
    slots = [slot_of(number, [1] * (CAUGHT_UP - 1), [2]) for number in range(context.batch // CAUGHT_UP + 2)]
    found = model.guess([(slot, 1) for slot in slots])
    assert [len(one) for one in found] == [1] * (len(slots) - 2) + [0] * 2
    assert [len(one) for one in model.guess([(slot, 1) for slot in slots])] == [1] * len(slots)


def test_a_token_that_it_does_not_have_takes_no_guess_from_others() -> None:
    model, _ = draft_model()
    slots = [slot_of(0, [1], [len(PIECES)]), slot_of(1, [1], [2])]
    assert [len(one) for one in model.guess([(slot, 2) for slot in slots])] == [0, 2]
    assert [model.behind(slot) is None for slot in slots] == [True, False]


def test_tokens_that_it_does_not_have_are_not_read() -> None:
    model, context = draft_model()
    assert model.guess([(slot_of(0, [1], [len(PIECES)]), 4)]) == [[]]
    assert context.calls == []


def test_without_room_other_slots_go_and_then_it_makes_no_guess() -> None:
    model, context = draft_model(10)
    assert model.guess([(slot_of(0, [1] * 6, [2]), 1)])[0]
    assert model.guess([(slot_of(1, [1] * 6, [2]), 1)])[0]
    assert list(context.held) == [1]
    large = slot_of(0, [1] * 20, [2])
    assert model.guess([(large, 1)]) == [[]]
    assert model.behind(large) is None


class Endless(DiceSampler):
    """Never ends its answer."""

    def sample(self, context: Any, output: int) -> int:
        return super().sample(context, output) or 1


def written(model: DraftModel, prompt: int, limit: int, fancy: float) -> tuple[Slot, Any]:
    """An answer whose calls take a second each; its slot, and the context."""
    batch, context = spelling_batch(3000, 1, Drafts(8, slope(1.0), model), model)
    sampler = Endless(1, fancy)
    tokens = [1 + number * number % (len(PIECES) - 1) for number in range(prompt)]
    for event in spell(batch, tokens, ChatRequest(prompt="x"), sampler, limit, threading.Event()):
        if event is None:
            batch.step()
    return batch.slots[0], context


def test_what_it_guesses_right_takes_fewer_calls() -> None:
    model, _ = draft_model(3000)
    slot, context = written(model, 10, 120, 0.0)
    assert len(context.calls) < 60
    assert slot.accepted > 60


def test_wrong_guesses_end() -> None:
    model, context = draft_model(3000, 0.1)
    written(model, 10, 400, 1.0)
    assert 0 < len(context.calls) < 60


def test_a_dear_model_is_never_asked() -> None:
    model, context = draft_model(3000, 3.0)
    written(model, 10, 100, 0.0)
    assert context.calls == []


def test_a_long_prompt_is_read_in_pieces_and_only_by_answers_that_go_on() -> None:
    long, short = draft_model(3000, 0.2), draft_model(3000, 0.2)
    for (model, _), limit in ((long, 120), (short, 4)):
        written(model, 600, limit, 0.3)
    assert short[1].calls == []
    sizes = [len(call) for call in long[1].calls]
    assert sizes[:2] == [256, 256]
    assert 600 - 512 < sizes[2] < 256
    assert all(size <= CAUGHT_UP for size in sizes[3:])
    assert len(sizes) > 10


def test_chances_of_a_model_that_nobody_asks_come_back() -> None:
    drafts = Drafts(8)
    drafts.chances.note(DRAFTED, 60, 0)
    before = drafts.chances.of(DRAFTED)
    for _ in range(150):
        drafts.writer([1])
    assert before < 0.1
    assert drafts.chances.of(DRAFTED) > 0.5
