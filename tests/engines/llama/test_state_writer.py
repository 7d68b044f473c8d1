"""States that wait for a slow disk: answers go on, the states are found in memory, and none is lost on the way down."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.counting import batch_of, prompt, talk
from support.server import until

from edgeserve.engines.llama.cache import PrefixCache, SavedState
from edgeserve.engines.llama.state_writer import StateWriter
from edgeserve.engines.llama.states import StateFiles
from edgeserve.engines.llama.states_folder import StatesFolder
from edgeserve.engines.llama.writing import Allowance

PATIENCE = 60.0


class Disk:
    """A folder of states. ``stop`` lets no file be written until ``go``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._go = threading.Event()
        self._go.set()
        self.reached = threading.Event()
        self.stored = 0
        self.threads = ThreadPoolExecutor(1)
        self._store = StatesFolder.store
        monkeypatch.setattr(StatesFolder, "store", lambda *given: self._slow(*given))

    def _slow(self, *given: Any) -> bool:
        self.reached.set()
        assert self._go.wait(PATIENCE)
        stored = self._store(*given)
        self.stored += 1
        return stored

    def stop(self) -> None:
        self._go.clear()

    def go(self) -> None:
        self._go.set()

    def writer(self, most: int = 1 << 20, allowance: Allowance | None = None) -> StateWriter:
        limit = 1 << 20 if allowance is None else None
        folder = StatesFolder(self.folder, "llm", limit, allowance=allowance)
        return StateWriter(StateFiles(folder, bytes(32), worth=0), most, lambda: self.threads)

    def files(self) -> list[Path]:
        return list(self.folder.rglob("*.state"))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(tmp_path, monkeypatch)
    yield disk
    disk.go()
    disk.threads.shutdown()


def state(tokens: tuple[int, ...], size: int = 10, salt: str = "") -> SavedState:
    return SavedState(tokens, bytearray(bytes(tokens) * size)[:size], salt)


def test_streams_go_on_while_a_slow_disk_takes_a_conversation(disk: Disk) -> None:
    """The conversation leaves its slot and memory for the disk, and comes back before the disk has it."""
    disk.stop()
    batch, _ = batch_of(slots=2, limit=0, disk=disk.writer())
    stream, _ = batch.take(prompt(1, 50))
    talk(batch, prompt(2))
    talk(batch, prompt(3))
    assert disk.reached.wait(PATIENCE)
    for token in range(5):
        while stream.waiting:
            batch.step()
        batch.push(stream, token)
    assert disk.files() == []
    assert talk(batch, [*prompt(2), 7]) == 100
    disk.go()
    until(lambda: len(disk.files()) == 2)


def test_a_state_that_waits_is_found_by_its_own_salt_alone(disk: Disk) -> None:
    disk.stop()
    writer = disk.writer()
    mine = state((1, 2, 3), salt="mine")
    assert writer.write(mine)
    assert writer.longest((1, 2, 9), "mine") == (mine, 2)
    assert writer.longest((1, 2, 9)) == (None, 0)
    assert writer.read(mine) == mine.data


def test_a_state_that_waits_does_not_count_as_a_copy(disk: Disk) -> None:
    """The disk may refuse it yet, and then its conversation would be gone from the context."""
    disk.stop()
    cache = PrefixCache(0, disk=disk.writer())
    waiting = state((1, 2, 3))
    cache.put(waiting)
    assert cache.best((1, 2, 3)) == (waiting, 3)
    assert not cache.use(waiting)
    disk.go()
    until(lambda: cache.best((1, 2, 3))[0] is not waiting)
    written, length = cache.best((1, 2, 3))
    assert written is not None
    assert length == 3
    assert cache.use(written)
    assert cache.fetch(written) == waiting.data


def test_no_more_bytes_wait_than_the_queue_holds_but_always_one_state(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.stop()
    writer = disk.writer(most=25)
    assert writer.write(state((1,), 40))
    assert not writer.write(state((2,), 26))
    assert "the disk is slow" in caplog.text
    disk.go()
    until(lambda: not writer.waiting)
    disk.stop()
    assert [writer.write(state((number,), 10)) for number in (3, 4, 5, 6)] == [True] * 4
    assert [one.tokens for one in writer.waiting] == [(3,), (5,), (6,)]
    disk.go()
    until(lambda: not writer.waiting)
    assert len(disk.files()) == 4


@pytest.mark.parametrize(("large", "small"), [(30, 1), (40, 25), (400, 10)])
def test_a_large_state_on_its_way_to_a_slow_disk_costs_no_other_client_its_own(
    disk: Disk, large: int, small: int
) -> None:
    disk.stop()
    writer = disk.writer(most=25)
    assert writer.write(state((1,), large, "large"))
    assert writer.write(state((2,), small, "small"))
    assert not writer.write(state((3,), 26, "large"))
    assert not writer.write(state((4,), 25, "large"))
    disk.go()
    until(lambda: not writer.waiting)
    assert writer.longest((2,), "small")[1] == 1


def test_a_client_with_many_conversations_costs_no_other_client_its_state(disk: Disk) -> None:
    disk.stop()
    writer = disk.writer(most=30)
    assert writer.write(state((9,), 10, "many"))
    assert writer.write(state((1,), 10, "one"))
    for number in range(2, 8):
        assert writer.write(state((number,), 10, "many"))
    assert [(one.tokens, one.salt) for one in writer.waiting] == [
        ((9,), "many"),
        ((1,), "one"),
        ((6,), "many"),
        ((7,), "many"),
    ]
    assert not writer.write(state((8,), 25, "many")), "more than its share"


def test_a_state_that_another_one_in_the_queue_covers_is_not_written_twice(disk: Disk) -> None:
    disk.stop()
    writer = disk.writer()
    assert writer.write(state((1, 2, 3)))
    assert writer.write(state((1, 2)))
    assert [one.tokens for one in writer.waiting] == [(1, 2, 3)]


def test_the_memory_of_waiting_states_is_counted_once(disk: Disk) -> None:
    disk.stop()
    cache = PrefixCache(100, disk=disk.writer())
    cache.put(state((1,), 60))
    cache.put(state((2,), 60))
    assert (cache.size, cache.held) == (60, 120)
    kept = cache.best((2,))[0]
    assert isinstance(kept, SavedState)
    disk_of = cache.disk
    assert disk_of is not None
    disk_of.write(kept)  # ahead, while it is in memory too
    assert cache.held == 120
    disk.go()
    until(lambda: cache.held == 60)


def test_states_that_wait_for_the_disk_take_the_room_of_others(disk: Disk) -> None:
    disk.stop()
    cache = PrefixCache(100, disk=disk.writer())
    cache.room = 100
    assert cache.put(state((1,), 60))
    assert (cache.most, cache.largest) == (100, 100)
    cache.room = 0
    cache.fit()
    assert (cache.size, cache.held) == (0, 60), "the disk is slow"
    cache.room = 100
    assert (cache.most, cache.largest) == (40, 40)
    disk.go()
    until(lambda: cache.most == 100)


@pytest.mark.parametrize("amount", [1, 60, 120])
def test_memory_that_is_given_back_is_free_and_nothing_is_lost(disk: Disk, amount: int) -> None:
    disk.stop()
    cache = PrefixCache(60, disk=disk.writer())
    for number in (1, 2):
        cache.put(state((number,), 60))
    assert cache.held == 120
    ended = threading.Thread(target=cache.give_back, args=(amount,))
    ended.start()
    disk.go()
    ended.join(PATIENCE)
    assert not ended.is_alive()
    assert cache.held <= 120 - amount
    for number in (1, 2):
        found, length = cache.best((number,))
        assert found is not None
        assert length == 1
        assert cache.fetch(found) == state((number,), 60).data


def test_on_the_way_down_every_state_is_written_however_small_the_queue(disk: Disk) -> None:
    batch, _ = batch_of(size=2000, slots=4, limit=0, disk=disk.writer(most=1))
    for seed in range(4):
        talk(batch, prompt(seed))
    batch.save()
    assert len(disk.files()) == 4


def test_the_allowance_of_the_disk_holds_for_the_queue(disk: Disk) -> None:
    writer = disk.writer(allowance=Allowance(200))
    assert all(writer.write(state((number,), 50)) for number in (1, 2))
    until(lambda: not writer.waiting)
    assert len(disk.files()) == 1


def test_an_erased_conversation_is_erased_though_it_is_being_written(disk: Disk) -> None:
    disk.stop()
    cache = PrefixCache(0, disk=disk.writer())
    cache.put(state((1, 2, 3)))
    cache.put(state((4, 5, 6)))
    assert disk.reached.wait(PATIENCE)
    cache.forget((1, 2, 3), "")
    cache.forget((4, 5, 6), "")
    assert cache.best((1, 2, 3)) == cache.best((4, 5, 6)) == (None, 0)
    disk.go()
    with cache.settled():
        assert disk.files() == []
    assert cache.best((1, 2, 3)) == (None, 0)


def test_no_file_is_being_written_once_all_is_settled(disk: Disk) -> None:
    """A forgotten state was still on its way: its memory had not come back, and two threads wrote at once."""
    disk.stop()
    cache = PrefixCache(0, disk=disk.writer())
    cache.put(state((1, 2, 3)))
    assert disk.reached.wait(PATIENCE)
    cache.forget((1, 2, 3), "")
    threading.Timer(0.05, disk.go).start()
    with cache.settled():
        assert disk.stored == 1
        assert disk.files() == []


def test_a_state_that_llama_refuses_leaves_the_queue(disk: Disk) -> None:
    disk.stop()
    cache = PrefixCache(0, disk=disk.writer())
    cache.put(state((1, 2, 3)))
    found, _ = cache.best((1, 2, 3))
    assert found is not None
    cache.refuse(found)
    assert cache.best((1, 2, 3)) == (None, 0)
    disk.go()
    with cache.settled():
        assert disk.files() == []


def test_without_a_thread_the_state_is_written_at_once(disk: Disk) -> None:
    disk.threads.shutdown()
    writer = disk.writer()
    assert writer.write(state((1, 2, 3)))
    assert not writer.waiting
    assert len(disk.files()) == 1


def test_a_disk_that_refuses_costs_the_state_and_the_queue_goes_on(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = disk.writer()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake")

    for failure in (full, broken):
        with monkeypatch.context() as patch:
            patch.setattr(StatesFolder, "store", failure)
            assert writer.write(state((1,)))
            until(lambda: not writer.waiting)
    assert "No space left" in caplog.text
    assert "a mistake" in caplog.text
    assert writer.write(state((2,)))
    until(lambda: not writer.waiting)
    assert len(disk.files()) == 1


def test_readers_and_the_writer_share_the_index(disk: Disk) -> None:
    """States come and go on one thread, while the other finds, reads and drops them."""
    writer = disk.writer()
    for number in range(60):
        tokens = (number % 5, number % 3, number)
        writer.write(state(tokens))
        for asked in range(5):
            found, length = writer.longest((asked,))
            if found is not None and (data := writer.read(found)) is not None:
                assert data == state(tuple(found.tokens)).data
                assert length == 1
        if number % 7 == 0 and found is not None:
            writer.drop(found)
    with writer.settled():
        assert writer.waiting == ()
    assert writer._files.size == sum(path.stat().st_size for path in disk.files())
