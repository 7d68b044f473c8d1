"""Conversations that return to a full context: idle slots make room for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.counting import batch_of, decode, prompt, talk
from support.examples import examples

from edgeserve.engines.llama.state_index import shared
from edgeserve.engines.llama.state_writer import StateWriter
from edgeserve.engines.llama.states import StateFiles
from edgeserve.engines.llama.states_folder import StatesFolder


@pytest.mark.parametrize("slots", [2, 3, 4, 8])
@pytest.mark.parametrize("on_disk", [False, True])
def test_more_conversations_than_the_context_holds_all_come_back(tmp_path: Path, slots: int, on_disk: bool) -> None:
    disk = StateWriter(StateFiles(StatesFolder(tmp_path, "llm", 1 << 20), bytes(32))) if on_disk else None
    batch, _ = batch_of(size=2048, slots=slots, limit=600 if on_disk else 10_000, disk=disk)
    talks = [prompt(seed, 585) for seed in range(7)]
    for tokens in talks:
        talk(batch, tokens)
    for turn in range(3):
        for tokens in talks:
            tokens.append(turn)
            assert talk(batch, tokens) == len(tokens) - 1


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_state_that_llama_refuses_is_asked_for_once(tmp_path: Path, on_disk: bool) -> None:
    """Such as one of another kind of device. Idle conversations leave the context for it, so it must not come again."""
    disk = StateWriter(StateFiles(StatesFolder(tmp_path, "llm", 1 << 20), bytes(32))) if on_disk else None
    batch, context = batch_of(slots=2, limit=0 if on_disk else 1000, disk=disk)
    talk(batch, prompt(1, 300))
    batch.save()
    for slot in batch.slots:
        batch.swapper.empty(slot)
    context.refuses = True
    assert talk(batch, prompt(1, 300)) == 0
    assert batch.saved.best(prompt(1, 300)) == (None, 0)
    assert not list(tmp_path.rglob("*.state"))


def test_answers_under_way_keep_their_room() -> None:
    batch, context = batch_of(size=1000, slots=3, limit=10_000)
    talk(batch, prompt(1, 500))
    talk(batch, prompt(2, 450))
    slot, _ = batch.take(prompt(3, 400))
    decode(batch, slot)
    again, _ = batch.take([*prompt(1, 500), 7])
    decode(batch, again)
    assert context.held[slot.sequence] == prompt(3, 400)
    assert context.held[again.sequence] == [*prompt(1, 500), 7]


def test_a_state_that_cannot_fit_beside_answers_under_way_evicts_nothing() -> None:
    batch, context = batch_of(size=1000, slots=4, limit=10_000)
    talk(batch, prompt(1, 700))
    slot, _ = batch.take(prompt(3, 400))
    decode(batch, slot)
    batch.give_back(batch.take_empty())
    talk(batch, prompt(2, 30))  # no copy is worth making of it
    before = dict(context.held)
    batch.take([*prompt(1, 700), 7])
    assert {number: context.held.get(number) for number in before} == before


TURNS = some.lists(some.tuples(some.integers(0, 3), some.integers(0, 2), some.integers(1, 60)), max_size=25)


@examples(80)
@given(
    TURNS, some.integers(1, 4), some.booleans(), some.sampled_from([200, 400, 1000]), some.sampled_from([0, 150, 2000])
)
def test_a_prompt_shares_prefixes_of_its_own_salt_only(
    turns: list[tuple[int, int, int]], slots: int, cuttable: bool, size: int, limit: int
) -> None:
    """A prompt finds no more tokens known than requests with its own salt have said before, whatever others asked."""
    batch, _ = batch_of(size=size, slots=slots, limit=limit, cuttable=cuttable)
    said: dict[str, list[list[int]]] = {}
    head = prompt(99, 60)
    for number, seed, length in turns:
        salt, tokens = f"salt {number}", [*head, *prompt(seed, length)]
        known = talk(batch, tokens, salt=salt)
        mine = said.setdefault(salt, [])
        assert known <= max((shared(one, tokens[:-1]) for one in mine), default=0)
        mine.append(tokens)
        if seed == 0:
            list(batch.idle_work())


@pytest.mark.parametrize(("room", "kept"), [(10_000, 300), (250, 200), (99, 0), (0, 0)])
def test_conversations_are_kept_only_where_memory_has_room(room: int, kept: int) -> None:
    batch, _ = batch_of(size=120, slots=1, limit=300)
    batch.saved.room = room
    for seed in range(6):
        talk(batch, prompt(seed))
        assert batch.saved.held <= room
    assert batch.saved.held == kept


def test_an_engine_at_work_drops_the_conversations_that_have_no_room_any_more() -> None:
    batch, _ = batch_of(size=120, slots=1, limit=300)
    for seed in range(4):
        talk(batch, prompt(seed))
    slot, _ = batch.take(prompt(9))
    batch.saved.room = 150
    decode(batch, slot)
    assert batch.saved.held == 100


def test_conversations_of_a_context_that_goes_are_kept() -> None:
    batch, _ = batch_of(size=250, slots=2, limit=300)
    talk(batch, prompt(1))
    batch.saved.room = 0
    batch.save()
    assert batch.saved.held == 100
