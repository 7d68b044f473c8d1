"""The listening socket."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading

import pytest
from support.raw import alive, dialled
from support.server import fake_pool, serving, until

from edgeserve import server
from edgeserve.connections import ACCEPTED_AT_ONCE
from edgeserve.server import listen


def test_small_writes_leave_at_once() -> None:
    """Nagle's algorithm would hold each second one back until the client acknowledges, 40 ms later."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), contextlib.closing(listener.accept()[0]) as served:
            assert served.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY on no other"


class Full(socket.socket):
    """A listening socket of a process that has no descriptors left, until ``spare`` is set."""

    spare = threading.Event()
    attempts = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.spare.is_set():
            return super().accept()
        Full.attempts += 1
        raise OSError(errno.EMFILE, "Too many open files")


def test_no_descriptors_left_is_a_line_and_no_spinning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(host: str, port: int) -> socket.socket:
        with listen(host, port) as bound:
            return Full(fileno=bound.detach())

    monkeypatch.setattr("support.server.listen", full)
    waiting = threading.Event()
    Full.spare.clear()
    with caplog.at_level(logging.WARNING), serving(fake_pool(["llm"])) as running, dialled(running):
        until(lambda: Full.attempts > 0)
        waiting.wait(0.5)  # asyncio tries again after a second; spinning would be thousands of attempts by now
        assert Full.attempts <= ACCEPTED_AT_ONCE
        Full.spare.set()
        until(lambda: alive(running))
    told = [record for record in caplog.records if record.name == server.log.name]
    assert told
    assert all("a connection cannot be accepted: Too many open files" in record.message for record in told)
    assert not [record for record in caplog.records if record.exc_info]
