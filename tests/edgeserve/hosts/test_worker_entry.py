"""A worker process as it begins."""

from __future__ import annotations

import socket
import sys

import pytest

from edgeserve.hosts import worker_entry


def test_threads_of_a_worker_hand_the_interpreter_over_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar that is followed in Python must not hold the thread that makes the tokens of others."""
    before, seen = sys.getswitchinterval(), list[float]()

    class Enough(Exception):
        pass

    def connected(connection: socket.socket, arguments: object) -> None:
        seen.append(sys.getswitchinterval())
        raise Enough

    monkeypatch.setattr(worker_entry, "_channel", connected)
    monkeypatch.setattr("edgeserve.hosts.worker_entry.heap.tune", lambda: None)
    here, there = socket.socketpair()
    try:
        with here, there, pytest.raises(Enough):
            worker_entry.main(here, {})
    finally:
        sys.setswitchinterval(before)
    assert seen[0] <= 0.001
