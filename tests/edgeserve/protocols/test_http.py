"""One HTTP connection whose client sends late, wrongly or without end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import examples
from support.gates import Held, engine_of
from support.raw import CHAT, HEALTH, HELLO, alive, ask, dialled, read_all, read_answer, refusal
from support.server import Running, fake_pool, serving, until

from edgeserve.connections import Connections

few = examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
def test_a_connection_that_says_nothing_is_closed(short: Running) -> None:
    with dialled(short) as link:
        assert read_all(link) == b""


def test_a_head_that_is_not_finished_is_answered_408(short: Running) -> None:
    """Also after a whole request. All wait at once."""
    with contextlib.ExitStack() as links:
        waiting = []
        for before in (b"", HEALTH):
            for part in (b"G", b"GET / HTTP/1.1\r\n", HEALTH[:-1]):
                link = links.enter_context(dialled(short))
                if before:
                    link.sendall(before)
                    assert read_answer(link)[0] == 200
                link.sendall(part)
                waiting.append((before, part, link))
        for before, part, link in waiting:
            status, told = refusal(read_all(link))
            assert (status, told["code"]) == (408, "request_timeout"), (before, part)
            assert told["message"].startswith("the request's head is not complete 0.4 s after its first byte")


@pytest.mark.slow
def test_a_client_that_has_left_before_it_is_refused_is_no_error(
    short: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def reset(self: Any) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(asyncio.selector_events._SelectorSocketTransport, "write_eof", reset)  # type: ignore[attr-defined]
    assert refusal(ask(short, b"GET / HTTP/1.1\r\n"))[0] == 408
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.slow
def test_a_head_that_trickles_gains_no_time(short: Running) -> None:
    sent = 0
    with dialled(short) as link, contextlib.suppress(OSError):
        for byte in HEALTH + HEALTH:
            link.sendall(bytes([byte]))
            sent += 1
            time.sleep(0.05)  # the client's own pace
    assert sent < len(HEALTH + HEALTH), "the server cuts the connection"


@pytest.mark.slow
def test_a_body_that_does_not_come_is_answered_408(short: Running) -> None:
    with contextlib.ExitStack() as links:
        waiting = []
        for framing in (b"Content-Length: 100", b"Transfer-Encoding: chunked"):
            for sent in (b"", b"1\r\n{\r\n"):
                link = links.enter_context(dialled(short))
                link.sendall(CHAT + framing + b"\r\n\r\n" + sent)
                waiting.append((framing, sent, link))
        for framing, sent, link in waiting:
            status, told = refusal(read_all(link))
            assert (status, told["code"]) == (408, "request_timeout"), (framing, sent)
            assert told["message"].startswith("the request's body did not come in time: ")
            assert "body_timeout" in told["message"]


SMUGGLED = b"0\r\n\r\nGET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


@few
@given(
    st.sampled_from(["Content-Length", "content-length", "CONTENT-LENGTH"]),
    st.sampled_from(["Transfer-Encoding", "transfer-encoding", "tRANSFER-eNCODING"]),
    st.sampled_from(["chunked", "Chunked", " chunked ", "identity", "gzip, chunked", "xchunked"]),
    st.integers(0, 60),
    st.booleans(),
)
def test_nothing_is_smuggled_behind_a_body(
    usual: Running, length_name: str, coding_name: str, coding: str, length: int, turned: bool
) -> None:
    lines = [f"{length_name}: {length}", f"{coding_name}:{coding}"]
    head = CHAT + "\r\n".join(lines[::-1] if turned else lines).encode() + b"\r\n\r\n"
    answer = ask(usual, head + SMUGGLED)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert refusal(answer)[0] == 400


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 5 5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length : 5\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n",
        b"Host: other\r\n",
        b"X: a\nContent-Length: 5\r\n",
        b"X: \x00\r\n",
        b"X: \x1b[31m\r\n",
        b" X: folded\r\n",
    ],
)
def test_heads_of_two_meanings_are_refused(usual: Running, head: bytes) -> None:
    answer = ask(usual, CHAT + head + b"\r\n" + HELLO)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert refusal(answer)[0] == 400
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("target", [b"http://evil.example/v1/health", b"*", b"evil.example:80"])
def test_targets_that_are_no_paths_reach_nothing(usual: Running, target: bytes) -> None:
    answer = ask(usual, b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert refusal(answer)[0] == 404


@few
@given(
    st.binary(max_size=200), st.sampled_from([b"", b"GET ", CHAT, CHAT + b"Transfer-Encoding: chunked\r\n\r\n5\r\n"])
)
def test_noise_hurts_nobody_else(usual: Running, caplog: pytest.LogCaptureFixture, noise: bytes, before: bytes) -> None:
    with caplog.at_level(logging.ERROR):
        with dialled(usual) as link:
            link.sendall(before + noise)
            link.shutdown(socket.SHUT_WR)
            read_all(link)
        assert alive(usual)
    assert not caplog.records


def test_a_broken_chunk_is_that_requests_400(usual: Running, caplog: pytest.LogCaptureFixture) -> None:
    with dialled(usual) as link:
        link.sendall(CHAT + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        until(lambda: len(usual.server.server_state.tasks) > 0)
        link.sendall(b"no number\r\n")
        assert refusal(read_all(link))[0] == 400
    until(lambda: not usual.server.server_state.tasks)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.slow
def test_an_early_answer_ends_a_body_that_goes_on(short: Running) -> None:
    """A client that declares 32 GB is answered at once, and the server stops reading after a while."""
    with dialled(short) as link:
        link.sendall(CHAT + b"Content-Length: 34359738368\r\n\r\n")
        status, told = read_answer(link)
        assert (status, told["error"]["code"]) == (413, "too_large")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 2000:
                link.sendall(bytes(1 << 12))
                sent += 1
                time.sleep(0.005)  # the client's own pace
        assert sent < 2000


def test_after_an_early_answer_a_body_that_ends_leaves_the_connection(short: Running) -> None:
    with dialled(short) as link:
        for _ in range(3):
            link.sendall(b"POST /no/such HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20000\r\n\r\n")
            assert read_answer(link)[0] == 404
            link.sendall(bytes(20000) + HEALTH)
            assert read_answer(link)[0] == 200


@pytest.mark.slow
def test_an_unread_part_of_a_body_does_not_count_against_the_next_body(short: Running) -> None:
    lost = b"POST /no/such HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n" + bytes(60000)
    with dialled(short) as link:
        for _ in range(20):
            link.sendall(lost)
            assert read_answer(link)[0] == 404
            link.sendall(CHAT + b"Transfer-Encoding: chunked\r\n\r\n")
            link.sendall(b"13\r\n" + HELLO + b"\r\n0\r\n\r\n")
            assert read_answer(link)[0] == 200


def test_requests_in_a_row_are_answered_in_their_order(usual: Running) -> None:
    with dialled(usual) as link:
        body = CHAT + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO
        link.sendall((body + HEALTH) * 20)
        for _ in range(20):
            assert read_answer(link)[1]["text"] == "hello"
            assert read_answer(link)[1]["status"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [b"1\r\n \r\n", b"00001\r\n \r\n", b"8;" + b"x" * 999 + b"\r\n" + bytes(8) + b"\r\n"])
def test_a_body_that_is_all_framing_is_refused(usual: Running, chunk: bytes) -> None:
    with dialled(usual) as link:
        link.sendall(CHAT + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(400_000 // len(chunk)):
                link.sendall(chunk)
        status, told = refusal(read_all(link))
    assert status == 400
    assert "the chunks of the body are too small" in told["message"]


def test_a_body_that_is_refused_before_it_is_asked_for(usual: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing follows the refusal, not even a 100 Continue."""
    with dialled(usual) as link:
        link.sendall(CHAT + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n")
        assert refusal(read_all(link))[0] == 400
    assert alive(usual)
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


def test_silent_connections_shut_nobody_out() -> None:
    connections = Connections(8)
    with serving(fake_pool(["llm"]), connections=connections) as running, contextlib.ExitStack() as held:
        for _ in range(40):
            held.enter_context(dialled(running))
        assert alive(running)
        assert len(connections) <= connections.share


@pytest.mark.slow
def test_bodies_that_stall_shut_nobody_out() -> None:
    connections = Connections(8)
    with serving(fake_pool(["llm"]), connections=connections) as running, contextlib.ExitStack() as held:
        links = [held.enter_context(dialled(running)) for _ in range(4)]
        for link in links:
            link.sendall(CHAT + b"Content-Length: 100\r\n\r\n{")
        until(lambda: len(running.server.server_state.tasks) == 4)
        until(lambda: all(one.idle(time.monotonic()) for one in running.server.server_state.connections))
        assert alive(running)


def test_a_client_with_all_its_places_at_work_is_told_so() -> None:
    connections = Connections(4)
    with serving(fake_pool(["llm"]), connections=connections) as running, contextlib.ExitStack() as links:
        held = Held(engine_of(running.pool.gates["llm"]))
        for _ in range(2):
            link = links.enter_context(dialled(running))
            link.sendall(CHAT + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO)
        until(lambda: len(running.server.server_state.tasks) == 2)
        status, told = refusal(ask(running, b""))
        held.go.set()
        assert (status, told["code"]) == (503, "queue_full")
        assert "max_connections" in told["message"]


def test_of_requests_that_come_at_once_none_is_closed_unread() -> None:
    """One place is left for five of them. Each connection was closed for the next one, without a word."""
    connections = Connections(4)
    with serving(fake_pool(["llm"]), connections=connections) as running, contextlib.ExitStack() as links:
        held, accepting = Held(engine_of(running.pool.gates["llm"])), threading.Event()
        link = links.enter_context(dialled(running))
        link.sendall(CHAT + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO)
        until(lambda: len(running.server.server_state.tasks) == 1)
        running.server._loop.call_soon_threadsafe(accepting.wait)  # type: ignore[union-attr]
        asking = [links.enter_context(dialled(running)) for _ in range(5)]
        for link in asking:
            link.sendall(HEALTH)
        accepting.set()
        assert sorted(read_answer(link)[0] for link in asking) == [200, 503, 503, 503, 503]
        held.go.set()


def test_a_request_whose_client_has_gone_keeps_its_place() -> None:
    """It holds memory. A client that asks and leaves would have any number of them."""
    connections = Connections(4)
    with serving(fake_pool(["llm", "tts"]), connections=connections) as running:
        running.client.post("/memory/preload", json={"engines": ["llm", "tts"]}).raise_for_status()
        running.client.close()
        until(lambda: not len(connections))
        held = [Held(engine_of(gate)) for gate in running.pool.gates.values()]
        for engine in (b"llm", b"tts"):
            with dialled(running) as link:
                link.sendall(b"POST /memory/evict/%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % engine)
                assert held[engine == b"tts"].entered.wait(10)
        until(lambda: not running.server.server_state.connections)
        assert len(connections) == 2
        assert refusal(ask(running, HEALTH))[0] == 503
        for one in held:
            one.go.set()
        until(lambda: not len(connections))
        with dialled(running) as link:
            link.sendall(HEALTH)
            assert read_answer(link)[0] == 200
