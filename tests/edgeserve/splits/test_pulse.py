"""The pulse of machines, by real datagrams on loopback addresses."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from support.server import until

from edgeserve.splits import pulse
from edgeserve.splits.pulse import LENGTH, MISSES, QUESTION, Pulses


class Machine:
    """A worker's side of the pulse. ``hangs``: it takes questions and sends nothing back."""

    def __init__(self) -> None:
        self.line = pulse.listen("127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self.line.getsockname()[1]}"
        self.asked = self.answered = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._thread = threading.Thread(target=pulse.answer, args=(self.line, self._met))
        self._thread.start()

    def _met(self) -> None:
        self.asked += 1
        assert self.goes_on.wait(30)

    def end(self) -> None:
        self.goes_on.set()
        with contextlib.suppress(OSError):  # a datagram's socket that nobody is connected to
            self.line.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.line.close()


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    made = [Machine() for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.end()


@contextlib.contextmanager
def asking(*endpoints: str) -> Iterator[Pulses]:
    made = Pulses(endpoints)
    try:
        yield made
    finally:
        made.close()


def looks(pulses: Pulses, there: Machine, count: int) -> list[tuple[str, ...]]:
    """The results of so many looks, each after the machine has taken the question of the last one."""
    found = []
    for _ in range(count):
        asked = there.asked
        found.append(pulses.look(True))
        until(lambda asked=asked: there.asked > asked)  # type: ignore[misc]
    return found


def test_a_machine_that_answers_is_never_lost() -> None:
    with machines(1) as (one,), asking(one.endpoint) as pulses:
        assert pulses.meet() == ()
        assert looks(pulses, one, 3 * MISSES) == [()] * 3 * MISSES


def test_a_machine_that_hangs_is_lost_and_the_other_is_not() -> None:
    with machines(2) as (one, other), asking(one.endpoint, other.endpoint) as pulses:
        assert pulses.meet() == ()
        other.goes_on.clear()
        found: tuple[str, ...] = ()
        for _ in range(MISSES + 2):
            (found,) = looks(pulses, one, 1)
            if found:
                break
        assert found == (other.endpoint,)


def test_silence_while_nothing_is_owed_does_not_count() -> None:
    with machines(1) as (one,), asking(one.endpoint) as pulses:
        assert pulses.meet() == ()
        asked = one.asked
        one.goes_on.clear()
        for _ in range(3):
            assert [pulses.look(True) for _ in range(MISSES - 1)] == [()] * (MISSES - 1)
            assert pulses.look(False) == ()
        assert one.asked <= asked + 1  # it hangs in the first question


def test_a_machine_without_a_pulse_is_not_watched() -> None:
    """Another version of the worker, or a firewall between: it has to work as well as without pulses."""
    with pulse.listen("127.0.0.1", 0) as deaf, machines(1) as (one,):
        endpoint = f"127.0.0.1:{deaf.getsockname()[1]}"
        with asking(endpoint, one.endpoint) as pulses:
            assert pulses.meet() == (endpoint,)
            assert looks(pulses, one, 2 * MISSES) == [()] * 2 * MISSES


def test_other_datagrams_get_no_answer() -> None:
    with machines(1) as (one,), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        host, _, port = one.endpoint.rpartition(":")
        line.connect((host, int(port)))
        for wrong in (b"", b"x", QUESTION, QUESTION + b"x" * 9, b"?" * LENGTH):
            line.send(wrong)
        line.send(QUESTION + b"12345678")
        line.settimeout(10)
        assert line.recv(100) == b"edgeserve pulse!12345678"
        assert one.asked == 1


def test_a_stranger_cannot_answer_for_a_machine() -> None:
    with pulse.listen("127.0.0.1", 0) as deaf, asking(f"127.0.0.1:{deaf.getsockname()[1]}") as pulses:
        pulses.look(True)
        _, asker = deaf.recvfrom(100)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"edgeserve pulse!12345678", asker)
        deaf.sendto(b"edgeserve pulse!12345678", asker)  # not what was asked
        for _ in range(MISSES - 1):
            assert pulses.look(True) == ()
        assert pulses.look(True) != ()


class Endless:
    """A socket of a machine that sends faster than anybody reads."""

    def __init__(self, *_: object) -> None:
        self.read = 0

    def setblocking(self, *_: object) -> None:
        pass

    connect = send = setblocking

    def close(self) -> None:
        pass

    def recv(self, size: int) -> bytes:
        self.read += 1
        assert self.read < 10_000, "one look reads without end"
        return b"?" * size


def test_a_machine_that_sends_without_end_does_not_hold_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    there = SimpleNamespace(socket=Endless, AF_INET=socket.AF_INET, SOCK_DGRAM=socket.SOCK_DGRAM)
    monkeypatch.setattr(pulse, "socket", there)
    with asking("10.0.0.2:1") as pulses:
        assert [pulses.look(True) for _ in range(MISSES + 1)][-2:] == [(), ("10.0.0.2:1",)]
