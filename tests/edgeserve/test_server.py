"""The listening socket, and the clients that may use it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import gc
import itertools
import logging
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from support.raw import alive, dialled, read_all, refusal
from support.server import Running, build, fake_pool, serving, until

from edgeserve import server
from edgeserve.config import Config, ServerSettings
from edgeserve.connections import ACCEPTED_AT_ONCE
from edgeserve.errors import ConfigError
from edgeserve.listening import check, check_open, listen
from edgeserve.models.store import Store
from edgeserve.server import Server


def test_small_writes_leave_at_once() -> None:
    """Nagle's algorithm would hold each second one back until the client acknowledges, 40 ms later."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), contextlib.closing(listener.accept()[0]) as served:
            assert served.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY on no other"


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "\udcff", "203.0.113.1"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on .* port 0: .*; choose an address of this machine"):
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


@pytest.mark.slow
def test_no_descriptors_left_is_a_line_and_no_spinning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(host: str, port: int) -> socket.socket:
        with listen(host, port) as bound:
            return Full(fileno=bound.detach())

    monkeypatch.setattr("support.server.listen", full)
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.4)  # usually a second
    waiting = threading.Event()
    Full.spare.clear()
    with caplog.at_level(logging.WARNING), serving(fake_pool(["llm"])) as running, dialled(running):
        until(lambda: Full.attempts > 0)
        # asyncio tries again after 0.4 s. Spinning would be thousands of attempts by now; a busy machine waits longer.
        waiting.wait(0.2)
        assert Full.attempts <= 20 * ACCEPTED_AT_ONCE
        Full.spare.set()
        until(lambda: alive(running))
        records = tuple(caplog.records)  # asyncio fails to resume accepting on a server that has stopped meanwhile
    told = [record for record in records if record.name == server.log.name]
    assert told
    assert all("a connection cannot be accepted: Too many open files" in record.message for record in told)
    assert not [record for record in records if record.exc_info]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.20", "fe80::1", "::ffff:10.0.0.1", "8.8.8.8"])
def test_other_machines_are_let_in_without_a_key_only_where_that_is_said(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match=f"listening on {host} without a key.*EDGESERVE_API_KEY.*--insecure"):
        check_open(host, locked=False, insecure=False)
    assert not caplog.text
    check_open(host, locked=False, insecure=True)
    assert "whoever reaches this machine can use it" in caplog.text
    caplog.clear()
    check_open(host, locked=True, insecure=False)
    assert not caplog.text


def test_a_check_of_the_address_leaves_it_free(caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(listen("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}"):
            check(Config(ServerSettings(port=port)), locked=False, insecure=False)
    check(Config(ServerSettings(port=port)), locked=False, insecure=False)
    check(Config(ServerSettings(port=port)), locked=False, insecure=False)
    with pytest.raises(ConfigError, match="without a key"):
        check(Config(ServerSettings(host="0.0.0.0", port=0)), locked=False, insecure=False)
    check(Config(ServerSettings(host="0.0.0.0", port=0)), locked=False, insecure=True)
    check(Config(ServerSettings(host="0.0.0.0", port=0)), locked=True, insecure=False)
    assert not caplog.text, "the server warns of it once, when it listens"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_this_machine_alone_needs_no_key(host: str, caplog: pytest.LogCaptureFixture) -> None:
    check_open(host, locked=False, insecure=False)
    assert not caplog.text


@pytest.mark.slow
def test_a_key_that_others_may_read_is_warned_of_at_the_start(tmp_path: Path) -> None:
    settings = tmp_path / "models.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.write_text(f'[server]\nport = {taken.getsockname()[1]}\napi_key = "sesame"\n')
        settings.chmod(0o644)
        command = [sys.executable, "-m", "edgeserve", "serve", "--config", str(settings)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2, "the port is taken"
    assert "holds secrets (api_key), and others may read it (mode 644)" in ended.stderr
    assert "sesame" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "", "0"])
def test_the_command_refuses_in_one_line(host: str, tmp_path: Path) -> None:
    """However the address is spelled that means all of them; the socket is bound, and never listens."""
    (tmp_path / "models.toml").write_text("[server]\nport = 0\n")
    command = [sys.executable, "-m", "edgeserve", "serve", "--config", str(tmp_path / "models.toml"), "--host", host]
    environ = {**os.environ, "EDGESERVE_API_KEY": ""}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("[ERROR] listening on 0.0.0.0 without a key")


def test_clients_that_neither_read_nor_send_on_end_a_drain_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "LAST_WORDS_SECONDS", 1.2)
    line = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{"
    with contextlib.ExitStack() as held:
        with serving(fake_pool(["llm"]), drain_seconds=0.1) as running:
            deaf, slow = (held.enter_context(dialled(running, receive_bytes=4096)) for _ in range(2))
            slow.sendall(body)
            deaf.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while deaf.send(line * 50):
                    pass
            assert alive(running)
        status, told = refusal(read_all(slow))
        assert (status, told["code"]) == (503, "shutting_down")
        assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


def test_a_name_that_is_none_is_found_before_a_certificate_is_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one, name in ((server.logs, "configure"), (server.turns, "shorten"), (server.heap, "exempt")):
        monkeypatch.setattr(one, name, lambda *given, **named: None)  # they change the process of the tests
    settings = ServerSettings(port=0, tls="self-signed", allowed_hosts=("bücher.lan",))
    with pytest.raises(ConfigError, match=r"allowed_hosts = 'bücher\.lan': expected the name of a host"):
        server.serve(Config(server=settings), Store(tmp_path / "models"))
    assert not (tmp_path / "tls").exists()


def test_threads_hand_the_interpreter_over_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is prepared in Python must not hold the thread that makes the tokens of others."""
    before, seen = sys.getswitchinterval(), list[float]()

    def listening(host: str, port: int) -> socket.socket:
        seen.append(sys.getswitchinterval())
        raise ConfigError("enough")

    monkeypatch.setattr(server, "listen", listening)
    monkeypatch.setattr(server.logs, "configure", lambda *given, **named: None)
    try:
        with pytest.raises(ConfigError, match="enough"):
            server.serve(Config(), Store(Path("unused")))
    finally:
        sys.setswitchinterval(before)
    assert seen[0] <= 0.001


def test_collections_leave_out_what_the_server_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection stops all threads, the longer the more objects it looks at."""
    before, left_out = sys.getswitchinterval(), list[bool]()
    known: list[object] = []

    def listening(host: str, port: int) -> socket.socket:
        left_out.append(not any(one is known for one in gc.get_objects()))
        raise ConfigError("enough")

    monkeypatch.setattr(server, "listen", listening)
    monkeypatch.setattr(server.logs, "configure", lambda *given, **named: None)
    assert any(one is known for one in gc.get_objects())
    try:
        with pytest.raises(ConfigError, match="enough"):
            server.serve(Config(), Store(Path("unused")))
    finally:
        sys.setswitchinterval(before)
    assert left_out == [True]


def answered(running: Running, count: int) -> bool:
    return running.server.server_state.total_requests == count


@pytest.mark.slow
def test_a_broken_connection_at_shutdown_costs_no_other_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    """A WebSocket that was closed by its client, which does not read: it can be told nothing any more.

    The drain has time, however slow the machine is. The server ends once that client has gone.
    """
    key = base64.b64encode(bytes(16))
    handshake = b"GET /v1/transcribe/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    handshake += b"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n" % key
    with contextlib.ExitStack() as held:
        with serving(fake_pool(["llm", "asr"], delay=0.05), drain_seconds=60.0) as running:
            deaf = held.enter_context(dialled(running, receive_bytes=4096))
            state = running.server.server_state
            until(lambda: len(state.connections) == 1)
            (served,) = state.connections
            for count in itertools.count(1):
                deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")  # one piece, which waits for nobody
                until(partial(answered, running, count))
                if served.transport.get_write_buffer_size():
                    break
            deaf.sendall(handshake)
            until(lambda: len(running.app.state.sessions) == 1)
            deaf.sendall(bytes([0x88, 0x82, 0, 0, 0, 0, 3, 0xE8]))  # close, 1000
            until(lambda: len(running.app.state.sessions) == 0)
            body = {"messages": [{"role": "user", "content": "one two three four"}], "stream": True}
            answer = held.enter_context(running.client.stream("POST", "/v1/chat/completions", json=body))
            running.server.should_exit = True
            text = "".join(answer.iter_text())
            deaf.close()
        assert text.endswith("data: [DONE]\n\n")
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
