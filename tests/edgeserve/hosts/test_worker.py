"""Tasks in order, on one thread that exists only once it is needed."""

from __future__ import annotations

import threading

import pytest

from edgeserve.errors import Busy
from edgeserve.hosts.worker import Worker


def test_tasks_are_done_in_order_on_one_thread() -> None:
    worker = Worker("test-worker")
    done: list[tuple[int, str]] = []
    for number in range(50):
        worker.put(lambda number=number: done.append((number, threading.current_thread().name)))  # type: ignore[misc]
    worker.stop()
    assert done == [(number, "test-worker") for number in range(50)]


def test_without_a_task_there_is_no_thread() -> None:
    before = set(threading.enumerate())
    worker = Worker("test-worker")
    worker.stop()
    assert set(threading.enumerate()) <= before


def test_what_is_done_when_idle_is_done_once_after_the_tasks() -> None:
    idle = threading.Semaphore(0)
    done: list[str] = []

    def rest() -> None:
        done.append("rest")
        idle.release()

    worker = Worker("test-worker", rest)
    for number in range(2):
        worker.put(lambda number=number: done.append(str(number)))  # type: ignore[misc]
        assert idle.acquire(timeout=10)
    worker.stop()
    assert done == ["0", "rest", "1", "rest"]


def test_a_call_tells_how_it_ended_and_the_worker_goes_on() -> None:
    worker, gate = Worker("test-worker"), threading.Event()

    def wait() -> None:
        gate.wait(10)

    def fail() -> None:
        raise ValueError("no")

    worker.put(wait)

    failed, left, done = worker.call(fail), worker.call(fail), worker.call(lambda: None)
    left.cancel()
    gate.set()
    with pytest.raises(ValueError, match="no"):
        failed.result(10)
    assert done.result(10) is None
    assert left.cancelled()
    worker.stop()


def test_a_task_that_raises_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    done, idle = threading.Event(), threading.Semaphore(0)

    def fail() -> None:
        idle.release()
        raise ZeroDivisionError("of this task")

    worker = Worker("test-worker", fail)
    worker.put(fail)
    assert idle.acquire(timeout=10)
    assert idle.acquire(timeout=10), "an idle task that raises is survived, too"
    worker.put(done.set)
    assert done.wait(10)
    assert worker.alive
    worker.stop()
    assert "a task of test-worker failed" in caplog.text
    assert worker.alive, "it was asked to end"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_not_alive() -> None:
    worker = Worker("test-worker")
    assert worker.alive

    def die() -> None:
        raise KeyboardInterrupt

    worker.put(die)
    assert worker._thread is not None
    worker._thread.join(10)
    assert not worker.alive


def test_where_no_thread_can_be_started_the_next_task_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker, done = Worker("test-worker"), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Busy):
            worker.put(lambda: None)
    assert worker.alive
    worker.put(done.set)
    assert done.wait(10)
    worker.stop()
