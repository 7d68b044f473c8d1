"""WebSockets whose clients send without reading, or send frames that cost more than they weigh."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from support.gates import Held, engine_of
from support.raw import TEXT, alive, dialled, flood, frame, handshake, read_all, refusal
from support.server import Running, fake_pool, serving, until
from support.sound import speech

from edgeserve.connections import Patience
from edgeserve.live.session import PATIENCE_SECONDS
from edgeserve.protocols.bounded import HANGUP, READ_BYTES, WRITE_BYTES
from edgeserve.protocols.websocket import MAX_FRAGMENTS, SocketConnection

PING, PONG, BINARY, CONT = 9, 10, 2, 0


@pytest.fixture
def unknown() -> Iterator[Running]:
    """A server that no other client has met: connections that have gone may come to a shared one late."""
    with serving(fake_pool(["asr"])) as running:
        yield running


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with serving(fake_pool(["asr"]), patience=Patience(write=0.6)) as running:
        yield running


@contextlib.contextmanager
def opened(running: Running, **settings: int) -> Iterator[socket.socket]:
    with dialled(running, **settings) as link:
        link.sendall(handshake())
        assert link.recv(12) == b"HTTP/1.1 101"
        yield link


@pytest.mark.parametrize("size", [0, 1, 125])
def test_pings_whose_pongs_are_not_read_fill_no_memory(live: Running, size: int) -> None:
    waiting = [0]
    with opened(live, receive_bytes=4096) as link:
        link.settimeout(1)
        pings = frame(PING, os.urandom(size)) * 2000
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(500):
                link.sendall(pings)
                waiting += [one.transport.get_write_buffer_size() for one in list(live.server.server_state.connections)]
        assert max(waiting) <= WRITE_BYTES + 2 * READ_BYTES
        assert alive(live)
    until(lambda: len(live.app.state.sessions) == 0)


@pytest.mark.slow
def test_answers_that_are_not_read_fill_no_memory_and_end_it(live: Running) -> None:
    waiting = [0]

    def ended() -> bool:
        waiting.extend(one.transport.get_write_buffer_size() for one in list(live.server.server_state.connections))
        return len(live.app.state.sessions) == 0

    with opened(live, receive_bytes=4096) as link:
        flood(link, frame(TEXT, b"no command"), ended)
        assert WRITE_BYTES < max(waiting) <= WRITE_BYTES + 2 * READ_BYTES


@pytest.mark.parametrize("opcode", [PING, PONG])
def test_a_flood_of_pings_ends_the_connection(live: Running, opcode: int) -> None:
    with opened(live) as link:
        with contextlib.suppress(ConnectionError):
            link.sendall(frame(opcode, b"x") * 1000)
        assert struct.pack("!H", 1008) in read_all(link)
    until(lambda: len(live.app.state.sessions) == 0)


def test_some_pings_are_answered(live: Running) -> None:
    with opened(live) as link:
        link.sendall(frame(PING, b"mine") * 50)
        told = b""
        while told.count(b"mine") < 50:
            told += link.recv(4096)


def test_a_client_that_leaves_during_the_handshake_is_no_error(live: Running, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(30):
        with dialled(live) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.sendall(handshake())
    until(lambda: len(live.app.state.sessions) == 0 and not live.server.server_state.tasks)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("early", [frame(7, b""), frame(TEXT, b"\xff"), frame(PING, b"")])
def test_frames_that_come_before_the_handshake_is_answered_are_refused(
    unknown: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, early: bytes
) -> None:
    """In a later piece than the handshake they were taken, as if they had waited for the answer."""
    sessions, sent = unknown.app.state.sessions, threading.Event()
    start = sessions.start
    monkeypatch.setattr(sessions, "start", lambda *how: sent.wait(10) and start(*how))

    def upgraded() -> bool:
        return any(isinstance(one, SocketConnection) for one in list(unknown.server.server_state.connections))

    with dialled(unknown) as link:
        link.sendall(handshake())
        until(upgraded)
        link.sendall(early)
        sent.set()
        answer = read_all(link)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"wait for the answer before you send" in answer
    until(lambda: len(sessions) == 0)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_a_refused_handshake_whose_client_stays_is_no_error_at_the_servers_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with contextlib.ExitStack() as links, serving(fake_pool(["asr"])) as running:
        link = links.enter_context(dialled(running))
        link.sendall(handshake() + frame(PING, b""))
        assert refusal(read_all(link))[0] == 400
        assert running.server.server_state.connections
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.parametrize("early", [frame(TEXT, b'{"type": "close"}'), frame(PING, b""), b"\x81", b"x" * 3000])
def test_frames_in_one_piece_with_the_handshake_are_refused(
    unknown: Running, caplog: pytest.LogCaptureFixture, early: bytes
) -> None:
    """They were dropped, and what came later was taken for the first frame."""
    with dialled(unknown) as link:
        link.sendall(handshake() + early)
        answer = read_all(link)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"wait for the answer before you send" in answer
    assert len(unknown.app.state.sessions) == 0
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
    with opened(unknown):
        """Others are served."""


@pytest.mark.parametrize(("more", "code"), [(b"", 1007), (frame(8, struct.pack("!H", 1000)), 1000)])
def test_text_of_no_encoding_closes_the_connection(
    live: Running, caplog: pytest.LogCaptureFixture, more: bytes, code: int
) -> None:
    with opened(live) as link:
        link.sendall(frame(TEXT, b"\xff") + more)
        assert struct.pack("!H", code) in read_all(link)
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_an_answer_after_the_servers_own_close_is_no_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """Uvicorn closes for a pong that does not come, and took the next part of an answer for a mistake of ours."""
    said = '{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "' + "word " * 400 + '"}]}'
    asked = '{"type": "response.create", "response": {"output_modalities": ["text"]}}'
    with serving(fake_pool(["llm", "asr", "tts"], delay=0.01)) as running, dialled(running) as link:
        link.sendall(handshake().replace(b"/v1/transcribe/live", b"/v1/realtime"))
        assert link.recv(12) == b"HTTP/1.1 101"
        link.sendall(frame(TEXT, f'{{"type": "conversation.item.create", "item": {said}}}'.encode()))
        link.sendall(frame(TEXT, asked.encode()))
        told = b""
        while b"response.output_text.delta" not in told:
            told += link.recv(4096)
        [one] = [one for one in running.server.server_state.connections if isinstance(one, SocketConnection)]
        one.close_sent = True
        until(lambda: len(running.app.state.places) == 0)
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_a_message_in_endless_empty_frames_is_refused(live: Running) -> None:
    with opened(live) as link:
        link.sendall(frame(BINARY, b"", last=False) + frame(CONT, b"", last=False) * (2 * MAX_FRAGMENTS))
        told = read_all(link)
    assert struct.pack("!H", 1009) in told
    until(lambda: len(live.app.state.sessions) == 0)
    assert alive(live)


def test_a_message_in_some_frames_is_read(live: Running) -> None:
    with opened(live) as link:
        text = b'{"type": "nothing"}'
        parts = [frame(CONT, text[at : at + 1], last=False) for at in range(1, len(text))]
        link.sendall(frame(TEXT, text[:1], last=False) + b"".join(parts) + frame(CONT, b""))
        told = b""
        while b"must be one of start" not in told:
            told += link.recv(4096)


def test_a_large_command_is_refused_and_the_connection_stays(live: Running) -> None:
    with opened(live) as link:
        for _ in range(2):
            text = b'{"type": "' + b"x" * 65_000
            link.sendall(frame(TEXT, text, last=False) + frame(CONT, b"x" * 2000 + b'"}'))
            told = b""
            while b"the limit is 65536" not in told:
                told += link.recv(4096)


def test_a_handshake_that_the_library_cannot_read_is_answered(live: Running) -> None:
    with dialled(live) as link:
        link.sendall(handshake("X-Long: " + "x" * 9000))
        assert read_all(link).split()[1] in (b"400", b"431")
    assert alive(live)


def test_a_handshake_with_two_framings_is_refused(live: Running) -> None:
    with dialled(live) as link:
        link.sendall(handshake("Content-Length: 4", "Transfer-Encoding: chunked"))
        assert refusal(read_all(link))[0] == 400


@pytest.mark.parametrize("line", ["Origin: http://elsewhere.example", "Sec-Fetch-Site: cross-site"])
def test_a_refused_handshake_is_no_error_in_the_log(live: Running, caplog: pytest.LogCaptureFixture, line: str) -> None:
    with dialled(live) as link:
        link.sendall(handshake(line))
        assert refusal(read_all(link))[0] == 403
    assert alive(live)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.skipif(HANGUP is None, reason="this system does not tell that a client has gone before all is read")
def test_a_client_that_leaves_while_its_sound_waits_is_noticed() -> None:
    with serving(fake_pool(["asr"]), patience=Patience(write=0.4)) as running:
        held = Held(engine_of(running.pool.gates["asr"]))
        with opened(running) as link:
            sound = speech(0.9)
            for _ in range(40):
                link.sendall(frame(BINARY, sound))
            (session,) = running.app.state.sessions._open.values()
            (connection,) = running.server.server_state.connections
            until(lambda: session._window.room < len(sound) and not connection.may_read)
        until(lambda: not running.server.server_state.connections, PATIENCE_SECONDS / 2)
        held.go.set()
