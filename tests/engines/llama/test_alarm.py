"""The alarm that ends a call of llama.cpp: real threads, no runtime."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.server import until

from edgeserve.engines.llama.alarm import Alarm

HOUR = 3600.0


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    made = Alarm()
    yield made
    made.close()


def raised(alarm: Alarm) -> bool:
    return bool(alarm.flag.value)


def test_the_flag_is_raised_when_the_time_is_up(alarm: Alarm) -> None:
    for _ in range(3):
        alarm.set(0.0)
        until(lambda: raised(alarm))
        alarm.clear()
        assert not raised(alarm)


def test_a_shorter_time_is_seen_while_the_thread_waits_for_a_longer_one(alarm: Alarm) -> None:
    alarm.set(HOUR)
    assert not raised(alarm)
    alarm.set(0.0)
    until(lambda: raised(alarm))


def test_a_flag_of_one_call_is_not_that_of_the_next(alarm: Alarm) -> None:
    alarm.set(0.0)
    until(lambda: raised(alarm))
    alarm.clear()
    alarm.set(HOUR)
    assert not raised(alarm)


def threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "edgeserve-alarm"}


def test_the_thread_begins_with_the_first_call_and_ends_with_the_context() -> None:
    before = threads()
    alarm = Alarm()
    assert threads() == before
    alarm.set(HOUR)
    (thread,) = threads() - before
    alarm.close()
    assert not thread.is_alive()


def test_without_a_thread_calls_have_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    alarm = Alarm()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        alarm.set(0.0)
    assert not raised(alarm)
    alarm.set(0.0)  # now there is one
    until(lambda: raised(alarm))
    alarm.close()
