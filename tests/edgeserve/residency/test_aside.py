"""Slow work of one kind waits for its own kind only."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import inspect
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from edgeserve import clients
from edgeserve.clients import Client
from edgeserve.engines.llama.threads import LOOK_EVERY
from edgeserve.errors import Busy
from edgeserve.residency.aside import Aside


@contextlib.contextmanager
def held() -> Iterator[threading.Event]:
    """Work that waits for an event, which comes at the latest when the test ends."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


def test_work_returns_and_raises() -> None:
    slow = Aside("work", threads=1)
    assert asyncio.run(slow.run(int, "12", base=16)) == 18
    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(slow.run(int, "x"))


@examples(20)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 6))
def test_so_many_run_so_many_wait_and_the_rest_is_refused(threads: int, most: int, surplus: int) -> None:
    async def run() -> None:
        slow = Aside("work", threads, most)
        with held() as event:
            under_way = [asyncio.ensure_future(slow.run(event.wait, 20)) for _ in range(threads + most)]
            await asyncio.sleep(0)
            for _ in range(surplus):
                with pytest.raises(Busy, match=f"{most} requests wait for work"):
                    await slow.run(int)
            assert await asyncio.to_thread(int, "3") == 3, "other work goes on"
            under_way[-1].cancel()  # who leaves makes room
            await asyncio.sleep(0)
            last = asyncio.ensure_future(slow.run(int, "7"))
            await asyncio.sleep(0)
            event.set()
            assert await last == 7
            assert all(await asyncio.gather(*under_way[:-1]))

    asyncio.run(run())


def test_what_is_cancelled_while_it_waits_never_begins() -> None:
    async def run() -> None:
        slow, begun = Aside("work", threads=1), []
        with held() as event:
            first = asyncio.ensure_future(slow.run(event.wait, 20))
            second = asyncio.ensure_future(slow.run(begun.append, 1))
            await asyncio.sleep(0)
            second.cancel()
            await asyncio.sleep(0)
            event.set()
            assert await first
        assert await slow.run(int) == 0
        assert not begun

    asyncio.run(run())


@pytest.mark.slow
def test_work_that_hangs_does_not_hold_the_process() -> None:
    code = """
import asyncio, threading
from edgeserve.residency.aside import Aside

async def run():
    try:
        await asyncio.wait_for(Aside("work", threads=1).run(threading.Event().wait), 0.1)
    except TimeoutError:
        print("late")

asyncio.run(run())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "late\n"


class Large:
    """Something that work holds."""


def test_an_error_keeps_nothing_of_what_was_worked_on() -> None:
    def fail(large: Large) -> None:
        raise ValueError("damaged")

    async def run() -> weakref.ref[Large]:
        slow, large = Aside("work", threads=1), Large()
        with pytest.raises(ValueError, match="damaged"):
            await slow.run(fail, large)
        await slow.run(int)
        return weakref.ref(large)

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(run())() is None
    finally:
        gc.enable()


def test_a_thread_that_cannot_be_started_costs_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        slow = Aside("work", threads=2)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            for _ in range(3):
                with pytest.raises(Busy, match="no thread can be started for work"):
                    await slow.run(int)
        with held() as event:
            first = asyncio.ensure_future(slow.run(event.wait, 20))
            await asyncio.sleep(0)
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", start)
                second = asyncio.ensure_future(slow.run(int, "7"))
                await asyncio.sleep(0)
            event.set()
            assert await first
            assert await second == 7, "the thread that runs does it next"

    asyncio.run(run())


def ask(slow: Aside, address: str, work: Callable[[], object]) -> asyncio.Task[object]:
    """Work of a client without a key."""
    return ask_as(slow, Client(address=address), work)


def ask_as(slow: Aside, client: Client, work: Callable[[], object]) -> asyncio.Task[object]:
    """Work of a client, by a task of its own as for each request."""
    context = contextvars.copy_context()
    context.run(clients.current.set, client)
    return asyncio.get_running_loop().create_task(slow.run(work), context=context)


def test_clients_take_turns() -> None:
    async def run() -> None:
        slow, order = Aside("work", threads=1), list[str]()
        with held() as event:
            first = ask(slow, "ada", lambda: event.wait(20))
            await asyncio.sleep(0)
            names = ["ada1", "ada2", "ada3", "bob1", "bob2", "cleo1"]
            tasks = [ask(slow, name[:-1], functools.partial(order.append, name)) for name in names]
            await asyncio.sleep(0)
        await asyncio.gather(first, *tasks)
        assert order == ["bob1", "cleo1", "ada1", "bob2", "ada2", "ada3"]

    asyncio.run(run())


def test_the_client_with_the_most_gives_its_last_place_up() -> None:
    async def run() -> None:
        slow = Aside("work", threads=1, most=4)
        with held() as event:
            first = ask(slow, "ada", lambda: event.wait(20))
            await asyncio.sleep(0)
            adas = [ask(slow, "ada", int) for _ in range(4)]
            await asyncio.sleep(0)
            bobs = [ask(slow, "bob", int) for _ in range(3)]
            for displaced in (adas.pop(), adas.pop()):
                with pytest.raises(Busy, match="4 requests wait for work"):
                    await displaced
            with pytest.raises(Busy, match="4 requests wait for work"):
                await bobs.pop()
        await asyncio.gather(first, *adas, *bobs)

    asyncio.run(run())


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_slow_work_of_one_client_leaves_a_thread_to_each_other_in_turn(threads: int) -> None:
    async def run() -> None:
        slow = Aside("work", threads)
        with held() as event:
            adas = [ask(slow, "ada", lambda: event.wait(20)) for _ in range(2 * threads)]
            await asyncio.sleep(0)
            assert await asyncio.wait_for(ask(slow, "bob", int), 20) == 0
            others = [ask(slow, name, int) for name in ("bob", "cleo", "dan")]
            assert await asyncio.wait_for(asyncio.gather(*others), 20) == [0, 0, 0]
            assert not any(one.done() for one in adas)
        assert all(await asyncio.gather(*adas))

    asyncio.run(run())


@pytest.mark.parametrize("threads", [2, 4])
def test_slow_work_of_one_key_leaves_a_thread_to_each_other_key_in_turn(threads: int) -> None:
    """Two networks of one key had all threads, with the one that was spare."""

    async def run() -> None:
        slow = Aside("work", threads)
        with held() as event:
            wait, mine = functools.partial(event.wait, 20), [f"10.0.0.{number}" for number in range(2 * threads)]
            tasks = [ask_as(slow, Client("ada", one), wait) for one in mine]
            await asyncio.sleep(0)
            others = [ask_as(slow, Client(name, mine[0]), int) for name in ("bob", "cleo", "bob")]
            assert await asyncio.wait_for(asyncio.gather(*others), 20) == [0, 0, 0]
            assert not any(one.done() for one in tasks)
        assert all(await asyncio.gather(*tasks))

    asyncio.run(run())


def test_no_more_than_the_threads_and_the_spare_ones_work_at_once() -> None:
    async def run() -> None:
        slow, lock, working, most = Aside("work", threads=2), threading.Lock(), 0, 0

        def work() -> None:
            nonlocal working, most
            with lock:
                working += 1
                most = max(most, working)
            begun.release()
            assert go_on.acquire(timeout=20)
            with lock:
                working -= 1

        begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
        tasks = [ask(slow, name, work) for name in ("ada", "ada", "ada", "bob", "bob", "cleo")]
        for _ in tasks:
            assert await asyncio.to_thread(begun.acquire, timeout=20)
            go_on.release()
        await asyncio.gather(*tasks)
        assert most <= 4

    asyncio.run(run())


def test_a_thread_that_rests_takes_the_next_piece_and_ends_when_none_comes() -> None:
    """To start a thread takes longer than many a short piece: bodies and answers come in thousands of them."""

    async def run() -> None:
        slow = Aside("short work", threads=2, rest=20)
        threads = {await slow.run(threading.current_thread) for _ in range(50)}
        assert len(threads) <= 3, "two and the spare one"
        with held() as event:
            tasks = [ask(slow, name, lambda: event.wait(20)) for name in ("ada", "ada", "bob")]
            await asyncio.sleep(0)
        assert all(await asyncio.gather(*tasks)), "beside a resting thread others begin"
        brief = Aside("brief work", threads=2, rest=0.001)
        for _ in range(20):
            thread = await brief.run(threading.current_thread)
            await asyncio.to_thread(thread.join, 20)
            assert not thread.is_alive()

    asyncio.run(run())


class Contended(queue.SimpleQueue[object]):
    """Another thread takes each piece between a look and the step after it."""

    def empty(self) -> bool:
        return False


def test_a_thread_whose_piece_another_one_took_ends_and_holds_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for the next piece with the lock, which the event loop takes to bring one: the server stood still."""

    async def run() -> None:
        slow = Aside("brief work", threads=2, rest=0.001)
        monkeypatch.setattr(slow, "_handed", Contended())
        thread = await slow.run(threading.current_thread)
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
        assert await slow.run(int, "7") == 7

    asyncio.run(run())


def test_the_event_loop_waits_for_no_thread_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new thread has its first turn behind all that compute. On a busy box the loop stood still for up to 1 s."""
    bootstrap, may_begin, in_time = threading.Thread._bootstrap, threading.Event(), []  # type: ignore[attr-defined]

    def late(thread: threading.Thread) -> None:
        in_time.append(may_begin.wait(20))
        bootstrap(thread)

    async def run() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "_bootstrap", late)
            task = asyncio.ensure_future(Aside("work", threads=1).run(int, "7"))
            await asyncio.sleep(0)
            may_begin.set()
            assert await task == 7
        assert in_time == [True]

    asyncio.run(run())


def test_a_thread_stays_until_engines_have_read_its_load() -> None:
    """Bodies of a millisecond, thousands of them, took a core that no engine left them: their threads had ended."""
    assert inspect.signature(Aside).parameters["rest"].default >= 2 * LOOK_EVERY
