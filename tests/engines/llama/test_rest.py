"""Idle slots are copied while nothing is asked, and cleared when another conversation begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.counting import batch_of, decode, prompt, talk
from support.examples import examples

from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.state_writer import StateWriter
from edgeserve.engines.llama.states import StateFiles
from edgeserve.engines.llama.states_folder import StatesFolder
from edgeserve.engines.llama.writing import Allowance


def test_an_idle_slot_is_copied_and_cleared_when_another_conversation_begins() -> None:
    batch, context = batch_of(slots=3)
    talk(batch, prompt(1), said=5)
    talk(batch, prompt(2))
    assert len(list(batch.idle_work())) == 2
    assert list(map(len, context.held.values())) == [105, 100]
    slot, _ = batch.take(prompt(3))
    decode(batch, slot)
    assert context.held == {slot.sequence: prompt(3)}
    assert talk(batch, [*prompt(1), *range(5), 7]) == 105


def test_an_idle_slot_without_a_copy_stays() -> None:
    batch, context = batch_of(slots=2)
    talk(batch, prompt(1))
    talk(batch, prompt(2))
    assert list(map(len, context.held.values())) == [100, 100]


def test_a_conversation_that_goes_on_stays_and_one_copy_of_it_is_kept() -> None:
    batch, context = batch_of(limit=110)
    talk(batch, prompt(1))
    assert len(list(batch.idle_work())) == 1
    assert talk(batch, [*prompt(1), 7, 8]) == 100
    assert list(map(len, context.held.values())) == [102]
    assert len(list(batch.idle_work())) == 1
    assert len(batch.saved) == 1


@pytest.mark.parametrize("limit", [0, 110, 250, 350])
def test_as_many_conversations_as_slots_lose_hardly_anything_to_copies(limit: int) -> None:
    """Conversations take turns, each after a rest, and there is room for fewer states than conversations.

    States that went before the first was missed are decoded anew. From then on the context keeps them all.
    """
    batch, _ = batch_of(slots=4, limit=limit)
    talks = [prompt(seed) for seed in range(4)]
    missed: list[int] = []
    for turn in range(12):
        for seed, tokens in enumerate(talks):
            if talk(batch, tokens) < len(tokens) - 1 and turn:
                missed.append(seed)
            tokens.append(seed)
            list(batch.idle_work())
    assert len(missed) == len(set(missed)) < len(talks)


def test_idle_slots_stay_in_the_context_when_states_serve_whole_prompts_only() -> None:
    batch, _ = batch_of(whole=True)
    first = prompt(1)
    talk(batch, first, said=5)
    assert list(batch.idle_work()) == []
    talk(batch, prompt(2))
    assert talk(batch, [*first, 0, 1, 9]) == 102


def test_two_that_fill_the_context_come_back_in_turns() -> None:
    batch, _ = batch_of(size=1000, slots=2, limit=2000)
    talks = [prompt(1, 600), prompt(2, 700)]
    for tokens in talks:
        talk(batch, tokens)
        list(batch.idle_work())
    for turn in range(3):
        for tokens in talks:
            assert talk(batch, [*tokens, turn]) == len(tokens)
            list(batch.idle_work())


@examples(60)
@example(800, [300], 5)
@example(900, [100, 100, 100], 4)
@given(st.integers(200, 900), st.lists(st.integers(60, 450), min_size=1, max_size=5), st.integers(2, 5))
def test_a_saved_conversation_comes_back_however_full_the_context_is(first: int, others: list[int], slots: int) -> None:
    """Room was made by conversations with a copy alone: where none had one, the prompt was read anew for ever."""
    batch, _ = batch_of(size=1000, slots=slots, limit=10_000)
    talk(batch, prompt(1, first))
    for number, length in enumerate(others, start=2):
        talk(batch, prompt(number, length))
    assert talk(batch, [*prompt(1, first), 1, 2]) >= first


def test_only_the_latest_that_fit_together_are_copied() -> None:
    batch, _ = batch_of(size=2000, slots=4, limit=250)
    for seed in range(4):
        talk(batch, prompt(seed))
    assert len(list(batch.idle_work())) == 2
    assert [batch.saved.best(prompt(seed))[1] for seed in range(4)] == [0, 0, 100, 100]


def test_what_is_saved_at_the_end_does_not_push_itself_out() -> None:
    batch, _ = batch_of(size=2000, slots=4, limit=350)
    for seed, length in enumerate((100, 100, 100, 60)):
        talk(batch, prompt(seed, length))
    batch.saved.copy_pause = 5
    batch.save()
    assert [batch.saved.best(prompt(seed, 60))[1] for seed in range(4)] == [0, 60, 60, 60]


def test_copies_that_must_not_evict_states_are_dropped_first() -> None:
    batch, _ = batch_of(size=2000, slots=2, limit=250)
    talk(batch, prompt(1))
    talk(batch, prompt(2))
    list(batch.idle_work())
    batch.saved.copy_pause = 5
    batch.saved.put(SavedState(tuple(prompt(3, 50)), bytes(50)))
    first, _ = batch.take(prompt(4))
    assert batch.saved.best(prompt(3, 50))[1] == 50
    batch.give_back(first)


def on_disk(folder: Path) -> StateFiles:
    """A disk with room for all, and bounded writes."""
    return StateFiles(StatesFolder(folder, "llm", None, allowance=Allowance(1 << 20)), bytes(32))


def test_copies_leave_memory_for_the_disk_and_their_conversations_leave_the_context(tmp_path: Path) -> None:
    """Memory has room for one copy of three."""
    batch, context = batch_of(size=2000, slots=4, limit=110, disk=on_disk(tmp_path))
    for seed in range(3):
        talk(batch, prompt(seed))
    assert len(list(batch.idle_work())) == 4
    assert list(batch.idle_work()) == []
    slot, _ = batch.take(prompt(3))
    assert context.held == {}
    decode(batch, slot)
    batch.give_back(slot)
    assert [talk(batch, [*prompt(seed), 7]) for seed in range(3)] == [100, 100, 100]


@pytest.mark.parametrize(("allowance", "written"), [(1300, 1), (1 << 20, 2)])
def test_what_is_larger_than_memory_is_written_while_idle_and_leaves_the_context(
    tmp_path: Path, allowance: int, written: int
) -> None:
    """As long as half of what may be written is left: states that leave the context need it more."""
    files = StateFiles(StatesFolder(tmp_path, "llm", None, allowance=Allowance(allowance)), bytes(32))
    batch, context = batch_of(size=2000, slots=3, limit=50, disk=files)
    talk(batch, prompt(1))
    talk(batch, prompt(2))
    assert len(list(batch.idle_work())) == written == len(list(tmp_path.rglob("*.state")))
    assert list(batch.idle_work()) == []
    slot, _ = batch.take(prompt(3))
    assert len(context.held) == 2 - written
    decode(batch, slot)
    batch.give_back(slot)
    assert talk(batch, [*prompt(2), 7]) == 100


def test_memory_that_the_governor_took_back_is_no_reason_to_write(tmp_path: Path) -> None:
    batch, _ = batch_of(size=2000, slots=3, limit=50, disk=on_disk(tmp_path))
    talk(batch, prompt(1))
    batch.saved.stop_copies()
    assert list(batch.idle_work()) == []


def test_a_copy_that_another_process_removed_keeps_its_conversation_in_the_context(tmp_path: Path) -> None:
    batch, context = batch_of(size=2000, slots=4, limit=110, disk=on_disk(tmp_path))
    for seed in range(2):
        talk(batch, prompt(seed))
    list(batch.idle_work())
    for one in tmp_path.rglob("*.state"):
        one.unlink()
    batch.take(prompt(3))
    assert list(context.held.values()) == [prompt(0)]


def test_what_the_next_copy_pushes_out_is_on_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, context = batch_of(size=2000, slots=4, limit=250, disk=on_disk(tmp_path))
    for seed in range(3):
        talk(batch, prompt(seed))
        list(batch.idle_work())
    assert len(list(tmp_path.rglob("*.state"))) == 2
    talk(batch, prompt(3))
    monkeypatch.setattr(StatesFolder, "store", lambda *_: pytest.fail("a prompt waits for the disk"))
    batch.take(prompt(4, 200))
    assert context.held == {}
    assert [batch.saved.best(prompt(seed))[1] for seed in range(4)] == [100] * 4


@pytest.mark.parametrize(("length", "rests"), [(128, 0), (127, 1), (40, 1)])
def test_a_long_prompt_has_the_conversations_before_it_copied_at_once(length: int, rests: int) -> None:
    batch, context = batch_of(slots=3)
    talk(batch, prompt(1))
    slot, _ = batch.take(prompt(2, length))
    assert len(context.held) == rests
    decode(batch, slot)
    batch.give_back(slot)
    assert talk(batch, [*prompt(1), 7]) == 100


def test_copies_before_a_prompt_take_little_of_its_time() -> None:
    """Two tokens of them at most for each token to read, the conversations that were used least lately first."""
    batch, context = batch_of(size=2000, slots=4, limit=0)
    for seed, length in ((1, 301), (2, 200), (3, 120)):
        talk(batch, prompt(seed, length))
    batch.saved.limit = 2000
    batch.take(prompt(4, 150))
    assert list(map(len, context.held.values())) == [301, 120]


def test_no_copy_before_a_prompt_pushes_out_states_that_are_asked_for() -> None:
    batch, context = batch_of(slots=3, limit=110)
    talk(batch, prompt(1))
    list(batch.idle_work())
    batch.saved.copy_pause = 5
    talk(batch, prompt(2))
    batch.take(prompt(3, 200))
    assert prompt(2) in context.held.values()
    assert batch.saved.best(prompt(1))[1] == 100


def test_only_a_state_on_disk_is_read_ahead_and_only_beside_an_answer(tmp_path: Path) -> None:
    batch, _ = batch_of(size=2000, slots=3, limit=110, disk=StateWriter(on_disk(tmp_path)))
    for seed in range(2):
        talk(batch, prompt(seed))
    batch.save()
    for slot in batch.slots:
        batch.swapper.empty(slot)
    asked = [[*prompt(seed), 7] for seed in range(2)]
    assert [batch.seats.read_ahead(one, "") is not None for one in asked] == [False, False]
    slot, _ = batch.take(prompt(2))
    assert [batch.seats.read_ahead(one, "") is not None for one in asked] == [True, False]
    decode(batch, slot)
    talk(batch, asked[0])
    assert batch.seats.read_ahead(asked[0], "") is None, "it is in the context now"


def test_a_file_that_is_gone_is_read_ahead_without_an_error(tmp_path: Path) -> None:
    disk = on_disk(tmp_path)
    assert disk.write(SavedState(tuple(prompt(1)), bytearray(100)))
    found, _ = disk.longest(prompt(1))
    assert found is not None
    disk.read_ahead(found)
    found.path.unlink()
    disk.read_ahead(found)
    assert disk.read(found) is None
