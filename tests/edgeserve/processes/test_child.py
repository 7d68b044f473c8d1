"""The steps that stop a child, and the status socket of a forked one."""

from __future__ import annotations

import json
import logging
import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from support.children import linux

from edgeserve.processes.child import KILL_SECONDS, Child, Forked

PID = 4321
KILL, TERM, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGCONT


class Script:
    """A process that ends at one of the steps: ``ends_at`` is a signal, or None for "by itself"."""

    pid = PID

    def __init__(self, ends_at: int | None, code: int) -> None:
        self.steps: list[tuple[str, float | None]] = []
        self._ends_at, self._code = ends_at, code
        self._ended = False

    def wait(self, seconds: float | None) -> int | None:
        self.steps.append(("wait", seconds))
        return self._code if self._ended or self._ends_at is None else None

    def send(self, number: int) -> None:
        self.steps.append(("send", number))
        self._ended |= number == self._ends_at

    def close(self) -> None:
        self.steps.append(("close", None))


class Parent:
    """A fork server that keeps what it hears."""

    def __init__(self) -> None:
        self.woken = 0
        self.left: list[int] = []

    def wake(self) -> None:
        self.woken += 1

    def leave(self, pid: int) -> None:
        self.left.append(pid)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        yield one, other


def child_of(process: Script) -> Child:
    one, other = socket.socketpair()
    other.close()
    return Child(process, one, "test")


@pytest.mark.parametrize(
    ("ends_at", "code", "steps"),
    [
        (None, 0, [("wait", 3.0)]),
        (TERM, -TERM, [("wait", 3.0), ("send", TERM), ("send", CONT), ("wait", 1.0)]),
        (
            KILL,
            -KILL,
            [
                ("wait", 3.0),
                ("send", TERM),
                ("send", CONT),
                ("wait", 1.0),
                ("send", KILL),
                ("wait", KILL_SECONDS),
            ],
        ),
    ],
)
def test_a_stop_goes_as_far_as_it_must(ends_at: int | None, code: int, steps: list[tuple[str, float | None]]) -> None:
    process = Script(ends_at, code)
    child = child_of(process)
    assert child.stop(seconds=3.0, term_seconds=1.0) == code
    assert process.steps == steps
    child.socket.close()


def test_a_process_that_the_kernel_keeps_is_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    child = child_of(Script(ends_at=-1, code=0))
    with caplog.at_level(logging.ERROR, "edgeserve.processes"):
        assert child.stop() is None
    assert "test (pid 4321) is not gone 10 s after SIGKILL" in caplog.text
    child.socket.close()


def test_a_close_kills_a_running_child_and_spares_an_ended_one() -> None:
    running, ended = Script(KILL, -KILL), Script(None, 0)
    with child_of(running) as one, child_of(ended) as other:
        assert (one.exit, other.exit) == (None, 0)
    assert running.steps == [
        ("wait", 0),
        ("wait", 0),
        ("send", KILL),
        ("wait", KILL_SECONDS),
        ("close", None),
    ]
    assert ended.steps == [("wait", 0), ("wait", 0), ("close", None)]
    assert one.socket.fileno() == other.socket.fileno() == -1


@linux
def test_a_forked_child_is_read_from_its_status_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    parent = Parent()
    child = Forked(PID, ours, parent)
    assert child.wait(0) is None
    child.send(signal.SIGTERM)
    child.send(signal.SIGCONT)
    assert theirs.recv(9) + theirs.recv(9) == bytes([signal.SIGTERM, signal.SIGCONT])
    theirs.send(json.dumps({"exit": 5}).encode())
    theirs.close()
    assert child.wait(1e12) == 5
    child.send(signal.SIGKILL)
    assert child.wait(0) == 5
    assert (parent.woken, parent.left) == (2, [])
    child.close()
    assert ours.fileno() == -1


@linux
@pytest.mark.parametrize(("before", "after"), [(1, 0), (5, 0), (1, 1)])
def test_signals_that_nobody_read_do_not_hide_the_code(
    pair: tuple[socket.socket, socket.socket], before: int, after: int
) -> None:
    """The kernel tells of messages that were lost with an error, before what was told in time."""
    ours, theirs = pair
    parent = Parent()
    child = Forked(PID, ours, parent)
    for _ in range(before):
        child.send(signal.SIGHUP)
    theirs.send(json.dumps({"exit": 5}).encode())
    theirs.close()
    for _ in range(after):
        child.send(signal.SIGTERM)
    assert child.wait(1.0) == 5
    assert parent.left == []
    child.close()


@linux
@pytest.mark.parametrize("signals", [0, 1])
def test_signals_that_nobody_read_and_no_code_are_a_kill(
    pair: tuple[socket.socket, socket.socket], signals: int
) -> None:
    ours, theirs = pair
    child = Forked(PID, ours, Parent())
    for _ in range(signals):
        child.send(signal.SIGHUP)
    theirs.close()
    assert child.wait(1.0) == -signal.SIGKILL
    child.close()


@linux
def test_the_end_of_the_status_without_a_code_is_a_kill(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    parent = Parent()
    child = Forked(PID, ours, parent)
    theirs.close()
    child.send(signal.SIGTERM)
    assert child.wait(None) == -signal.SIGKILL
    assert child.wait(0) == -signal.SIGKILL
    assert (parent.woken, parent.left) == (0, [PID])


@linux
def test_the_last_waiter_closes_the_status(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    child, codes = Forked(PID, ours, Parent()), list[int | None]()
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        codes.append(child.wait(None))

    waiter = threading.Thread(target=wait)
    waiter.start()
    begun.wait()
    while not child._waiters:
        pass
    child.close()
    assert ours.fileno() != -1
    theirs.close()
    waiter.join()
    assert ours.fileno() == -1
    assert codes == [-signal.SIGKILL]
    assert child.wait(None) == -signal.SIGKILL
