"""States that clients copy by hand: one at a time, and none in the answers' own time. On a context that keeps count."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from support.counting import batch_of, decode, prompt, talk
from support.gates import Clock
from support.server import until

from edgeserve.engines.llama import managing
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.engines.llama.managing import manage
from edgeserve.errors import Busy, Cancelled, Forbidden, MemoryPressure
from edgeserve.messages import SlotEvent, SlotRequest
from edgeserve.system.headroom import NoRoom

PATIENCE = 60.0


class SlowDisk:
    """Keeps a state when it is let. ``kept``: what it has."""

    limit, limits_writes, waiting = 0, False, ()

    def __init__(self) -> None:
        self.go, self.kept_states = threading.Event(), dict[str, SavedState]()

    def spares(self, size: int) -> bool:
        return False

    def longest(self, tokens: object, salt: str) -> tuple[None, int]:
        return None, 0

    def keep(self, name: str, state: SavedState) -> int:
        assert self.go.wait(PATIENCE)
        self.kept_states[name] = state
        return state.size

    def kept(self, name: str, salt: str) -> tuple[SavedState, int]:
        assert self.go.wait(PATIENCE)
        return self.kept_states[name], 1


@pytest.mark.parametrize("count", [2, 3, 8])
def test_one_state_is_copied_at_a_time(count: int) -> None:
    """Each save held a copy of the slot until the disk had it: the size of the context, in no book."""
    disk: Any = SlowDisk()
    batch, context = batch_of(slots=2, disk=disk)
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    talk(batch, prompt(1))
    copies, save = 0, context.save

    def counted(sequence: int, memory: Any = None) -> Any:
        nonlocal copies
        copies += 1
        assert copies <= len(disk.kept_states) + 1
        return save(sequence, memory)

    context.save = counted  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as threads:
        background = [Background(lambda: 0, lambda: threads) for _ in range(count)]
        saves = {
            number: manage(batch, SlotRequest("save", 0, f"a{number}"), (), one, threading.Event())
            for number, one in enumerate(background)
        }
        found: dict[int, SlotEvent] = {}

        def go_round() -> None:
            for number, one in list(saves.items()):
                if (event := next(one)) is not None:
                    found[number] = event
                    del saves[number]

        for _ in range(3):
            go_round()
            assert copies == 1
        disk.go.set()

        def over() -> bool:
            go_round()
            return not saves

        until(over)
    assert {one.tokens for one in found.values()} == {100}
    assert len(disk.kept_states) == count


class AtOnce:
    """Threads that have done each work by the time that anybody looks."""

    def __init__(self) -> None:
        self.works = 0

    def submit(self, call: Callable[..., object], *given: object) -> None:
        self.works += 1
        assert self.works < 50, "the loop of all answers never goes on"
        call(*given)


def test_a_save_that_waits_lets_the_loop_go_on_though_the_disk_is_idle() -> None:
    """The file was written, and its save waited for its turn on the loop, which never came."""
    disk: Any = SlowDisk()
    batch, context = batch_of(slots=2, disk=disk)
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    talk(batch, prompt(1))
    with ThreadPoolExecutor(1) as threads:
        first = manage(
            batch, SlotRequest("save", 0, "a"), (), Background(lambda: 0, lambda: threads), threading.Event()
        )
        assert next(first) is None
        disk.go.set()
    at_once: Any = AtOnce()
    second = manage(batch, SlotRequest("save", 0, "b"), (), Background(lambda: 0, lambda: at_once), threading.Event())
    assert next(second) is None
    assert next(first) is not None
    assert next(second) is not None
    assert set(disk.kept_states) == {"a", "b"}


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_client_that_restores_chooses_nobody_whose_conversation_leaves(number: int) -> None:
    """It named the slots of all others, one after the other, and what they held was read again."""
    disk: Any = SlowDisk()
    disk.go.set()
    disk.kept_states["mine"] = SavedState(tuple(prompt(9)), bytearray(prompt(9)), "me")
    batch, context = batch_of(slots=4, limit=0, disk=disk)
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    for seed in (1, 2):
        talk(batch, prompt(seed), salt=f"you/{seed}")
    with ThreadPoolExecutor(1) as threads:
        for _ in range(5):
            asked = SlotRequest("restore", number, "mine", "me")
            restore = manage(batch, asked, (), Background(lambda: 0, lambda: threads), threading.Event())
            until(lambda restore=restore: next(restore) is not None)  # type: ignore[misc]
            assert batch.slots[number].tokens == prompt(9)
            number = (number + 1) % 4
    assert [talk(batch, prompt(seed), salt=f"you/{seed}") for seed in (1, 2)] == [99, 99]


def test_a_save_waits_for_the_time_that_answers_have_of_their_own() -> None:
    disk: Any = SlowDisk()
    disk.go.set()
    batch, context = batch_of(slots=2, disk=disk)
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    talk(batch, prompt(1))
    stream, _ = batch.take(prompt(2))
    decode(batch, stream)
    batch.push(stream, 1)
    batch.pieces.delay(batch.slots, 1000.0)
    idle = next(number for number, slot in enumerate(batch.slots) if slot is not stream)
    with ThreadPoolExecutor(1) as threads:
        save = manage(
            batch, SlotRequest("save", idle, "a"), (), Background(lambda: 1, lambda: threads), threading.Event()
        )
        assert [next(save) for _ in range(5)] == [None] * 5
        assert not disk.kept_states
        batch.give_back(stream)
        until(lambda: next(save) is not None)
    assert disk.kept_states


@pytest.mark.parametrize("refuses", [False, True])
def test_a_slot_that_is_restored_owes_the_answers_their_time(refuses: bool) -> None:
    """Restored again and again, it took all steps between two tokens of the others."""
    disk: Any = SlowDisk()
    disk.go.set()
    disk.kept_states["a"] = SavedState(tuple(prompt(9)), bytearray(prompt(9)))
    clock = Clock()
    batch, context = batch_of(slots=2, disk=disk, drafts=Drafts(0, clock))
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    restore, context.refuses = context.restore, refuses

    def slow(sequence: int, data: bytes | bytearray) -> bool:
        clock.now += 100.0
        return restore(sequence, data)

    context.restore = slow  # type: ignore[method-assign]
    stream, _ = batch.take(prompt(2))
    decode(batch, stream)
    batch.push(stream, 1)
    idle = next(number for number, slot in enumerate(batch.slots) if slot is not stream)
    assert not batch.pieces.owes(batch.slots)
    with ThreadPoolExecutor(1) as threads, pytest.raises(Busy) if refuses else contextlib.nullcontext():
        asked = manage(
            batch, SlotRequest("restore", idle, "a"), (), Background(lambda: 1, lambda: threads), threading.Event()
        )
        until(lambda: next(asked) is not None)
    assert batch.pieces.owes(batch.slots)


@pytest.mark.parametrize("action", ["save", "restore"])
@pytest.mark.parametrize("waits_for", ["disk", "answers"])
def test_a_client_that_has_gone_waits_for_no_turn(action: Any, waits_for: str) -> None:
    """It held its place in the queue behind the states of others, and copied one for nobody."""
    disk: Any = SlowDisk()
    batch, context = batch_of(slots=2, disk=disk)
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    talk(batch, prompt(1))
    if waits_for == "disk":
        batch.swapper.copying = True
    else:
        stream, _ = batch.take(prompt(2))
        decode(batch, stream)
        batch.push(stream, 1)
        batch.pieces.delay(batch.slots, 1000.0)
    gone = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        asked = manage(batch, SlotRequest(action, 0, "a"), (), Background(lambda: 1, lambda: threads), gone)
        assert [next(asked) for _ in range(3)] == [None] * 3
        gone.set()
        with pytest.raises(Cancelled):
            until(lambda: next(asked) is not None)
    assert batch.swapper.copying == (waits_for == "disk")


@pytest.mark.parametrize("error", [NoRoom("101 MB are more than a quarter of the 400 MB"), MemoryError()])
def test_a_state_that_memory_has_no_room_for_is_no_mistake_of_the_client(error: MemoryError) -> None:
    """It got a 400, and a client that follows the standard never asks again."""
    disk: Any = SlowDisk()
    disk.kept = lambda name, salt: (_ for _ in ()).throw(error)
    batch, context = batch_of(slots=2, disk=disk)
    context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
    with ThreadPoolExecutor(1) as threads:
        background = Background(lambda: 0, lambda: threads)
        asked = manage(batch, SlotRequest("restore", 0, "a"), (), background, threading.Event())
        with pytest.raises(MemoryPressure, match=str(error) or "memory is short") as refused:
            until(lambda: next(asked) is not None)
    assert refused.value.retry_after
    assert not batch.swapper.copying


class Large:
    """A save of slot 0, whose state counts as large. Its memory is prepared when ``go`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk: Any = SlowDisk()
        self.disk.go.set()
        self.go, self.memory = threading.Event(), object()
        self.used: list[object] = []
        self.batch, context = batch_of(slots=2, disk=self.disk)
        context.model = SimpleNamespace(adapters=SimpleNamespace(salted=lambda salt, active: salt))  # type: ignore[attr-defined]
        talk(self.batch, prompt(1), salt="me")
        save = context.save

        def noted(sequence: int, memory: Any = None) -> Any:
            self.used.append(memory)
            return save(sequence)

        def prepare(size: int) -> object:
            assert self.go.wait(PATIENCE)
            return self.memory

        context.save = noted  # type: ignore[method-assign]
        monkeypatch.setattr(managing, "LARGE", 1)
        monkeypatch.setattr(managing, "prepare", prepare)

    def begin(self, pool: ThreadPoolExecutor) -> Iterator[SlotEvent | None]:
        background = Background(lambda: 1, lambda: pool)
        saving = manage(self.batch, SlotRequest("save", 0, "a", "me"), (), background, threading.Event())
        assert [next(saving) for _ in range(3)] == [None] * 3
        assert not self.used
        return saving


def test_answers_go_on_while_the_memory_of_a_large_state_is_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault for each page of 87 MB stopped all answers for 0.23 s."""
    large = Large(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        saving = large.begin(threads)
        large.go.set()
        until(lambda: next(saving) is not None)
    assert large.used == [large.memory]
    assert set(large.disk.kept_states) == {"a"}


def test_a_slot_that_an_answer_takes_meanwhile_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        saving = large.begin(threads)
        assert large.batch.take([*prompt(1), 5], "me")[0] is large.batch.slots[0]
        large.go.set()
        with pytest.raises(Busy, match="slot 0 is making an answer"):
            until(lambda: next(saving) is not None)
    assert not large.used


def test_a_conversation_of_another_client_that_came_meanwhile_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        saving = large.begin(threads)
        for seed, salt in enumerate(("you", "them"), 2):  # each has one of the two slots
            talk(large.batch, prompt(seed), salt=salt)
        large.go.set()
        with pytest.raises(Forbidden, match="another client"):
            until(lambda: next(saving) is not None)
    assert not any(one is large.memory for one in large.used)
