"""Tasks in order, on one thread that exists only once it is needed."""

from __future__ import annotations

import threading

from edgeserve.worker import Worker


def test_tasks_are_done_in_order_on_one_thread() -> None:
    worker = Worker("test-worker")
    done: list[tuple[int, str]] = []
    for number in range(50):
        worker.put(lambda number=number: done.append((number, threading.current_thread().name)))  # type: ignore[misc]
    worker.stop()
    assert done == [(number, "test-worker") for number in range(50)]


def test_without_a_task_there_is_no_thread() -> None:
    before = threading.active_count()
    worker = Worker("test-worker")
    worker.stop()
    assert threading.active_count() == before
