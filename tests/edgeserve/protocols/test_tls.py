"""TLS in front of HTTP: real clients, and those that stall, leave, or speak something else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.server import Running, fake_pool, serving, trusting, until
from support.tls import made, needs_openssl
from websockets.asyncio.client import connect

from edgeserve.attendants import Renewal
from edgeserve.connections import Connections, Patience
from edgeserve.protocols.bounded import HANGUP
from edgeserve.protocols.http import HttpConnection
from edgeserve.tls.certificate import Certificate

pytestmark = needs_openssl

CHAT = {"messages": [{"role": "user", "content": "one two three"}]}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(made(tmp_path_factory.mktemp("tls")))


@contextlib.contextmanager
def secured(certificate: Certificate, **more: Any) -> Iterator[Running]:
    with serving(
        fake_pool(["llm", "asr", "tts"], delay=more.pop("delay", 0.0)), certificate=certificate, **more
    ) as running:
        yield running


@contextlib.contextmanager
def raw(running: Running) -> Iterator[socket.socket]:
    host, port = running.client.base_url.host, running.client.base_url.port
    with socket.create_connection((host, port or 0), timeout=10) as link:
        yield link


def quiet(caplog: pytest.LogCaptureFixture) -> bool:
    return not [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def end_of(link: socket.socket) -> bytes:
    """All that comes until the server closes."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := link.recv(4096):
            got += piece
    return got


async def spoken(running: Running, certificate: Certificate) -> str:
    """The kind of the last message of a live session. One thread: OpenSSL lets no two work on one connection."""
    url = running.url.rstrip("/").replace("https", "wss") + "/v1/transcribe/live"
    async with asyncio.timeout(30), connect(url, ssl=trusting(certificate.path)) as ws:
        await ws.send(bytes(64_000))
        await ws.send(json.dumps({"type": "flush"}))
        async for message in ws:
            if (kind := str(json.loads(message)["type"])) not in ("started", "text"):
                return kind
    return "the end"


def test_answers_streams_and_websockets(certificate: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    with secured(certificate) as running:
        assert running.url.startswith("https://")
        client = running.client
        assert client.get("/v1/health").status_code == 200
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
        with client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
            assert "".join(answer.iter_text()).endswith("data: [DONE]\n\n")
        big = client.post("/v1/chat", json={"prompt": "word " * 40_000})
        assert big.status_code in (200, 400)
        assert asyncio.run(spoken(running, certificate)) == "flushed"
        assert len(running.server.connections) <= 2
    assert quiet(caplog)


def test_a_large_answer_comes_whole(certificate: Certificate) -> None:
    with secured(certificate) as running:
        texts = [running.client.get("/openapi.json").content for _ in range(3)]
    assert len({*texts}) == 1
    json.loads(texts[0])


def test_an_origin_of_its_own_page(certificate: Certificate) -> None:
    with secured(certificate) as running:
        own = running.url.rstrip("/")
        assert running.client.post("/v1/chat", json={"prompt": "x"}, headers={"Origin": own}).status_code == 200
        plain = own.replace("https", "http")
        assert running.client.post("/v1/chat", json={"prompt": "x"}, headers={"Origin": plain + "1"}).status_code == 403


def test_old_versions_are_refused(certificate: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    with secured(certificate) as running, raw(running) as link:
        context = trusting(certificate.path)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(link, server_hostname="localhost")
        until(lambda: len(running.server.connections) == 0)
    assert quiet(caplog)


def test_plain_http_is_told_what_to_do(certificate: Certificate) -> None:
    with secured(certificate) as running, raw(running) as link:
        link.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        link.shutdown(socket.SHUT_WR)
        answer = end_of(link)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request")
        assert b"connection: close" in head
        assert "https://" in json.loads(body)["error"]["message"]
        until(lambda: len(running.server.connections) == 0)


def test_handshakes_that_stall_are_ended_and_counted(
    certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    """All at once, as each waits for its end."""
    begun = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")
    with secured(certificate, patience=Patience(head=0.4)) as running, contextlib.ExitStack() as all_:
        links = [all_.enter_context(raw(running)) for _ in begun]
        for sent, link in zip(begun, links, strict=True):
            link.sendall(sent)
        until(lambda: len(running.server.connections) > 0)
        assert [end_of(link) for link in links] == [b""] * len(links)
        until(lambda: len(running.server.connections) == 0)
        assert not running.server.server_state.connections
        assert running.client.get("/v1/health").status_code == 200
    assert quiet(caplog)


@pytest.mark.slow
def test_a_plain_client_that_goes_on_sending_is_cut(certificate: Certificate) -> None:
    with secured(certificate, patience=Patience(linger=0.3)) as running, raw(running) as link:
        link.sendall(b"x")
        assert b"https://" in end_of(link)
        until(lambda: len(running.server.connections) == 0)


def test_a_client_that_leaves_during_the_handshake(certificate: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    with secured(certificate) as running:
        for sent in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x00\x05hello"):
            with raw(running) as link:
                link.sendall(sent)
        until(lambda: len(running.server.connections) == 0 and not running.server.server_state.connections)
        assert running.client.get("/v1/health").status_code == 200
    assert quiet(caplog)


def test_stalled_handshakes_give_their_places_to_others(certificate: Certificate) -> None:
    with secured(certificate, connections=Connections(8)) as running, contextlib.ExitStack() as held:
        for _ in range(12):
            held.enter_context(raw(running)).sendall(b"\x16\x03\x01")
        until(lambda: len(running.server.connections) == 4)
        assert running.client.get("/v1/health").status_code == 200


def test_a_refused_request_is_read_to_its_end(certificate: Certificate) -> None:
    """No half of a connection can be closed above TLS."""
    with secured(certificate) as running, raw(running) as link:
        over = trusting(certificate.path).wrap_socket(link, server_hostname="localhost")
        with over:
            over.sendall(b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n")
            got = b""
            while b"CR LF" not in got:
                piece = over.recv(4096)
                assert piece
                got += piece
            assert got.startswith(b"HTTP/1.1 400")


def is_full(one: Any) -> bool:
    """Whether so much waits for the client that nobody writes more. A connection in its handshake writes nothing."""
    return isinstance(one, HttpConnection) and one.flow.write_paused


@contextlib.contextmanager
def unread(running: Running, certificate: Certificate, request: bytes) -> Iterator[ssl.SSLSocket]:
    """A client that reads nothing of its answers."""
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(10)
        base = running.client.base_url
        link.connect((base.host, base.port or 0))
        with trusting(certificate.path).wrap_socket(link, server_hostname="localhost") as over:
            over.sendall(request)
            yield over


def test_a_reader_that_reads_nothing_is_cut(certificate: Certificate) -> None:
    """Also where the last bytes wait below TLS."""
    many = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40
    with secured(certificate, patience=Patience(write=0.5)) as running, unread(running, certificate, many):
        until(lambda: len(running.server.connections) == 0, seconds=30)


@pytest.mark.skipif(HANGUP is None, reason="this system tells of a client that has gone only to who reads")
def test_a_client_that_reads_nothing_and_leaves_frees_its_place(certificate: Certificate) -> None:
    """Its end waits unread, as the server reads nothing of it meanwhile. Nobody waits for the deadline of readers."""
    text = json.dumps({"model": "tts", "input": ". ".join(["many words of speech to read"] * 1000)}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(text)
    with secured(certificate) as running, unread(running, certificate, head + text) as over:
        until(lambda: any(is_full(one) for one in list(running.server.server_state.connections)))
        socket.socket.shutdown(over, socket.SHUT_WR)
        until(lambda: len(running.server.connections) == 0)


def test_idle_clients_do_not_hold_the_end_up(certificate: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    """A client between two requests reads nothing, and so answers no farewell of TLS."""
    with contextlib.ExitStack() as held:
        with secured(certificate, drain_seconds=60.0) as running:
            link = held.enter_context(raw(running))
            over = trusting(certificate.path).wrap_socket(link, server_hostname="localhost")
            over.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert over.recv(4096)
            silent = held.enter_context(raw(running))
            silent.sendall(b"\x16")
            until(lambda: len(running.server.server_state.connections) >= 2)
        # ``serving`` fails when the server has not ended 30 s later.
        over.close()
    assert quiet(caplog)


def test_a_new_certificate_is_shown_to_new_clients(tmp_path: Path) -> None:
    path = made(tmp_path / "a")
    certificate = Certificate(path)
    with secured(certificate, attendants=[Renewal(certificate)], patience=Patience(head=0.4)) as running:
        assert running.client.get("/v1/health").status_code == 200
        made(tmp_path / "b").replace(path)
        assert running.client.get("/v1/health").status_code == 200, "the connection under way goes on"

        def renewed() -> bool:
            try:
                with raw(running) as link, trusting(path).wrap_socket(link, server_hostname="localhost"):
                    return True
            except ssl.SSLError:
                return False

        until(renewed)
