"""Bounds of a connection whose client sends ahead, reads slowly or does not read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.gates import Held, engine_of
from support.raw import CHAT, HEALTH, HELLO, SHORT, dialled, read_all, read_answer, refusal
from support.server import Running, fake_pool, serving, until

from edgeserve.protocols.bounded import (
    HANGUP,
    READ_BYTES,
    UNREAD_READS,
    WIDE_READ_BYTES,
    WRITE_BYTES,
    Bounded,
    CountedTransport,
    Writing,
)
from edgeserve.protocols.http import HttpConnection


def sizes_of_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads from now on."""
    sizes: list[int] = []
    feed = HttpConnection.data_received

    def noted(self: Any, data: bytes) -> None:
        sizes.append(len(data))
        feed(self, data)

    monkeypatch.setattr(HttpConnection, "data_received", noted)
    return sizes


def test_a_burst_to_a_client_that_has_gone_is_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        raw, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        theirs.close()
        transport = CountedTransport(raw)
        for _ in range(20):
            transport.write(b"token")
        assert transport.taken == len(b"token")

    asyncio.run(run())
    assert not [one for one in caplog.records if one.levelno >= logging.INFO]


def test_a_client_that_goes_on_sending_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has filled its connection again whenever the server has read. All other clients would wait for its end."""
    reads = []

    class Filled(socket.socket):
        def recv(self, *given: int) -> bytes:
            reads.append(given)
            return b"more" if len(reads) < 10 * UNREAD_READS else b""

    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(socket, "socket", Filled)
        transport = SimpleNamespace(get_extra_info=lambda name: ours)
        Bounded.drop_unread(cast(Any, SimpleNamespace(transport=transport)))
    assert len(reads) == UNREAD_READS


@pytest.mark.slow
def test_requests_that_are_sent_ahead_wait_in_the_system() -> None:
    """The server reads nothing from a client while it makes an answer."""
    with serving(fake_pool(["llm"])) as running, dialled(running, timeout=0.25) as link:
        held = Held(engine_of(running.pool.gates["llm"]))
        body = CHAT + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO
        link.sendall(body)
        assert held.entered.wait(10)
        with pytest.raises(TimeoutError):
            link.sendall((body + HEALTH) * 200_000)
        (one,) = running.server.server_state.connections
        assert len(one.conn.trailing_data[0]) <= 2 * WIDE_READ_BYTES
        held.go.set()


@pytest.mark.skipif(HANGUP is None, reason="this system tells of a client that has gone only to who reads")
def test_a_client_that_sends_ahead_and_leaves_frees_the_engine() -> None:
    with serving(fake_pool(["llm"]), patience=SHORT) as running:
        held = Held(engine_of(running.pool.gates["llm"]))
        with dialled(running) as link:
            link.sendall(CHAT + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO + HEALTH * 10)
            assert held.entered.wait(10)
        until(lambda: not running.server.server_state.connections)
        held.go.set()


def test_a_reader_that_does_not_read_pauses_the_engine_and_little_waits_for_it() -> None:
    """Speech of nine minutes would be 28 MB in the server's buffer of the connection."""
    text = ". ".join(["many words of speech to read"] * 1000)
    request = json.dumps({"model": "tts", "input": text, "response_format": "pcm"}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(request)
    with serving(fake_pool(["tts"])) as running, dialled(running, receive_bytes=4096) as link:
        link.sendall(head + request)
        until(lambda: any(one.flow.write_paused for one in running.server.server_state.connections))
        (one,) = running.server.server_state.connections
        assert one.transport.get_write_buffer_size() <= 2 * WRITE_BYTES
        until(lambda: running.pool.gates["tts"].host.stuck)


@pytest.mark.slow
def test_a_reader_that_does_not_read_is_cut_and_its_work_ends(short: Running) -> None:
    words = ". ".join(["many words of speech to read"] * 300)
    request = json.dumps({"model": "tts", "input": words, "response_format": "pcm"}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(request)
    with dialled(short, receive_bytes=4096) as link:
        link.sendall(head + request)
        until(lambda: short.pool.gates["tts"].leases == 1)
        until(lambda: short.pool.gates["tts"].leases == 0)
        until(lambda: not short.server.server_state.tasks)


@pytest.mark.slow
def test_a_reader_that_is_slow_gets_all(short: Running) -> None:
    """A piece a second is progress: ``write`` counts from the last byte that the client took."""
    words = ". ".join(["many words of speech to read"] * 8)
    request = json.dumps({"model": "tts", "input": words, "response_format": "pcm"}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with dialled(short, receive_bytes=4096) as link:
        link.sendall(head % len(request) + request)
        read = pauses = 0
        while part := link.recv(1 << 15):
            read, pauses = read + len(part), pauses + 1
            time.sleep(0.03)  # the client's own pace
    assert pauses * 0.03 > 2 * SHORT.write
    assert read > 8 * 6 * 4800


def test_answers_that_wait_for_their_reader_are_bounded(usual: Running) -> None:
    assert len(usual.client.get("/openapi.json").content) > 3 * WRITE_BYTES
    waiting: list[int] = []
    open_before = set(usual.server.server_state.connections)
    with dialled(usual, receive_bytes=4096, timeout=2) as link, contextlib.suppress(TimeoutError):
        until(lambda: bool(set(usual.server.server_state.connections) - open_before))
        for _ in range(2000):
            link.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 10)
            waiting += [one.transport.get_write_buffer_size() for one in list(usual.server.server_state.connections)]
    assert max(waiting) <= 2 * WRITE_BYTES + 1024  # the head


@pytest.mark.slow
def test_reads_are_small_where_they_cost_work(usual: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sizes_of_reads(monkeypatch)
    chunks = b"20\r\n" + b" " * 32 + b"\r\n"
    with dialled(usual) as link:
        link.sendall(
            CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + chunks * 20_000 + b"13\r\n" + HELLO + b"\r\n0\r\n\r\n"
        )
        assert read_answer(link)[0] == 200
    assert max(sizes) <= READ_BYTES
    sizes.clear()
    assert usual.client.post("/v1/chat", content=b" " * 4_000_000 + HELLO).status_code == 200
    assert READ_BYTES < max(sizes) <= WIDE_READ_BYTES


def test_no_read_goes_beyond_a_body(usual: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny chunks of the next request cost 2.5 ms a kilobyte."""
    with dialled(usual) as link:
        link.sendall(CHAT + b"Content-Length: 100020\r\n\r\n" + b" " * 100_000)
        until(lambda: sum(one.plain for one in list(usual.server.connections._open)) == 20)  # type: ignore[attr-defined]
        sizes = sizes_of_reads(monkeypatch)
        link.sendall(HELLO + b" " + CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 10_000)
        assert read_answer(link)[0] == 200
        assert refusal(read_all(link))[0] == 400
    assert max(sizes) <= READ_BYTES


def test_reads_are_small_again_after_a_body_that_nobody_read(usual: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with dialled(usual) as link:
        link.sendall(b"POST /none HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\n" + bytes(100_000))
        assert read_answer(link)[0] == 404
        open_ = usual.server.connections._open
        until(lambda: any(getattr(one, "_lingering", None) for one in list(open_)))
        link.sendall(bytes(100_000))
        until(lambda: not any(getattr(one, "_lingering", None) for one in list(open_)))
        sizes = sizes_of_reads(monkeypatch)
        link.sendall(CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + (b"20\r\n" + b" " * 32 + b"\r\n") * 2000)
        link.sendall(b"13\r\n" + HELLO + b"\r\n0\r\n\r\n")
        assert read_answer(link)[0] == 200
    assert max(sizes) <= READ_BYTES


class Waiting:
    """A transport with bytes that the client has and has not taken."""

    taken, waiting = 0, 100

    def get_write_buffer_size(self) -> int:
        return self.waiting


def test_bytes_that_tls_adds_are_no_progress_of_the_reader() -> None:
    """A client that reads nothing could else keep its connection for hours by a change of keys now and then."""
    transport = Waiting()
    writing = Writing(cast(Any, transport))
    assert writing.stalled_since(1.0) == 1.0
    for now in (2.0, 3.0):
        transport.taken, transport.waiting = transport.taken - 27, transport.waiting + 27
        assert writing.stalled_since(now) == 1.0
    transport.taken = 1
    assert writing.stalled_since(4.0) == 4.0
