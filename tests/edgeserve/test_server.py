"""The listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading

import pytest
from support.raw import alive, dialled
from support.server import build, fake_pool, serving, until

from edgeserve import server
from edgeserve.connections import ACCEPTED_AT_ONCE
from edgeserve.errors import ConfigError
from edgeserve.server import Server, listen


def test_small_writes_leave_at_once() -> None:
    """Nagle's algorithm would hold each second one back until the client acknowledges, 40 ms later."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), contextlib.closing(listener.accept()[0]) as served:
            assert served.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY on no other"


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "\udcff"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on .* port 0: .*; choose another with --port"):
        listen(host, 0)


def test_a_port_that_is_taken() -> None:
    with contextlib.closing(listen("127.0.0.1", 0)) as other:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            listen("127.0.0.1", port)


def test_a_port_that_is_taken_while_models_are_mapped() -> None:
    pool, mine = fake_pool(["llm"]), listen("127.0.0.1", 0)
    with mine, listen("127.0.0.1", mine.getsockname()[1]) as other:
        other.listen()
        with pytest.raises(ConfigError, match="cannot listen: Address already in use"):
            asyncio.run(Server(build(pool), pool, 1.0).serve(sockets=[mine]))


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
