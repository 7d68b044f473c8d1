"""Threads that begin when there is a core for them, and nobody waits for that."""

from __future__ import annotations

import threading

import pytest

from edgeserve.system.thread_start import start_unawaited


class Late(threading.Thread):
    """Begins once ``may_begin`` is set, after 20 s at the latest. ``in_time``: whether it was set by then."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.may_begin, self.done = threading.Event(), threading.Event()
        self.in_time = False

    def _bootstrap(self) -> None:
        self.in_time = self.may_begin.wait(20)
        super()._bootstrap()  # type: ignore[misc]

    def run(self) -> None:
        self.done.set()


def test_the_caller_goes_on_before_the_thread_begins() -> None:
    thread = Late()
    start_unawaited(thread)
    assert not thread.is_alive()
    thread.may_begin.set()
    assert thread.done.wait(20)
    thread.join()
    assert thread.in_time
    assert thread not in threading.enumerate()


def test_a_thread_is_known_while_it_runs() -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        end.wait(20)

    thread = threading.Thread(target=work, daemon=True)
    start_unawaited(thread)
    assert begun.wait(20)
    assert thread.is_alive()
    assert thread in threading.enumerate()
    assert thread.native_id
    end.set()
    thread.join()


def test_a_thread_starts_once() -> None:
    begun = threading.Event()
    thread = threading.Thread(target=begun.set, daemon=True)
    start_unawaited(thread)
    assert begun.wait(20)
    thread.join()
    with pytest.raises(RuntimeError, match="once"):
        thread.start()
