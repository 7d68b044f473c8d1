"""The server of the door: its bounds, its deadlines and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from support.asked import hears
from support.door import Leases
from support.server import fake_pool, serving, until
from websockets.sync.client import connect

from edgeserve.cluster.door import Door
from edgeserve.cluster.front import Front
from edgeserve.connections import Patience
from edgeserve.errors import ConfigError
from edgeserve.listening import listen

CHAT = "/v1/chat/completions"
QUICK = Patience(head=0.2)
MB = 1 << 20


@contextlib.contextmanager
def front(leases: Leases, patience: Patience | None = None) -> Iterator[tuple[str, Front]]:
    """A front in an event loop on a thread, as Ray has one; and its address."""
    listener = listen("127.0.0.1", 0)
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Front(Door(leases.lease, leases.status), patience)
    try:
        asyncio.run_coroutine_threadsafe(made.open(listener), loop).result(30)
        yield address, made
    finally:
        asyncio.run_coroutine_threadsafe(made.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


class Node:
    """A node that answers each request with a stream of ``size`` bytes. ``sent``: bytes that it could send so far."""

    def __init__(self, size: int) -> None:
        self.sent, self._size = 0, size
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.url = "http://{}:{}".format(*self._listener.getsockname()[:2])

    def _run(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                asked = b""
                while not asked.endswith(b"}"):
                    asked += connection.recv(1 << 16)
                connection.sendall(head)
                while self.sent < self._size:
                    self.sent += connection.send(b"data: x\n\n" * 1000)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # accept would not notice its end
        self._listener.close()
        self._thread.join(30)


def test_an_answer_that_breaks_off_ends_the_connection_and_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def break_off() -> None:
        with listener.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: 99\r\n\r\nRIFF")

    node = threading.Thread(target=break_off)
    node.start()
    url = "http://{}:{}".format(*listener.getsockname()[:2])
    with front(Leases([url])) as (door, _), pytest.raises(httpx.TransportError):
        httpx.post(f"{door}/v1/audio/speech", json={"input": "hello"}, timeout=30)
    node.join(30)
    listener.close()
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "was lost within its answer" in line


def asks(url: str) -> socket.socket:
    """A client that has asked, and reads nothing."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), 30)
    body = json.dumps({"messages": [{"role": "user", "content": "go on"}], "stream": True}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    made.sendall(f"{head}\r\n\r\n".encode() + body)
    return made


def test_an_answer_waits_at_its_node_for_a_client_that_does_not_read() -> None:
    """Ray's proxy read it to its end, and kept it: six answers of 20 MB took 158 MB, and it never gave them back."""
    node = Node(256 * MB)
    try:
        with front(Leases([node.url])) as (url, _), contextlib.closing(asks(url)) as client:
            assert client.recv(12) == b"HTTP/1.1 200"
            before = -1
            while before != node.sent:  # each look takes a whole request of another client
                before = node.sent
                for _ in range(20):
                    assert httpx.get(f"{url}/cluster/status", timeout=30, trust_env=False).status_code == 200
            assert node.sent < 64 * MB
    finally:
        node.close()


def test_a_client_that_reads_gets_all_of_it() -> None:
    node = Node(8 * MB)
    try:
        with front(Leases([node.url])) as (url, _), contextlib.closing(asks(url)) as client:
            got = 0
            while got < 8 * MB:
                piece = client.recv(1 << 16)
                assert piece
                got += len(piece)
    finally:
        node.close()


@pytest.mark.parametrize("sent", [b"", b"GET /v1/", b"POST /v1/chat/completions HTTP/1.1\r\nHost: lo"])
def test_a_connection_that_asks_for_nothing_is_closed(sent: bytes) -> None:
    """Ray's proxy kept each of them for ever."""
    with front(Leases([]), QUICK) as (url, _):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as silent:
            silent.sendall(sent)
            answer = b""
            while piece := silent.recv(4096):
                answer += piece
    assert answer == b"" if not sent else b" 408 " in answer


def test_requests_and_websockets_pass() -> None:
    with serving(fake_pool(["llm", "asr"])) as node, front(Leases([node.url])) as (url, made):
        asked = {"messages": [{"role": "user", "content": "good morning"}]}
        answer = httpx.post(url + CHAT, json=asked, timeout=30, trust_env=False)
        assert answer.json()["choices"][0]["message"]["content"] == "good morning"
        with connect(f"{url.replace('http', 'ws', 1)}/v1/transcribe/live") as live:
            assert hears(live) == "1 2"
        assert made.alive
    until(lambda: not made.alive)


def test_the_front_ends_and_leaves_its_port() -> None:
    with front(Leases([])) as (url, made):
        assert httpx.get(f"{url}/cluster/status", timeout=30, trust_env=False).status_code == 200
    assert not made.alive
    host, port = url.removeprefix("http://").split(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), 5)


def test_a_front_that_cannot_begin_says_so() -> None:
    async def begin() -> None:
        leases = Leases([])
        made = Front(Door(leases.lease, leases.status))
        listener = listen("127.0.0.1", 0)
        listener.close()
        await made.open(listener)

    with pytest.raises(ConfigError, match="the door cannot serve"):
        asyncio.run(begin())
