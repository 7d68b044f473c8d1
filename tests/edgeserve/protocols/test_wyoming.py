"""Wyoming's connections: their number, their patience, and clients that send nonsense or do not read."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator

import pytest
from support.gates import PATIENCE_SECONDS, Held, engine_of
from support.raw import SHORT, dialled
from support.server import fake_pool, until
from support.wyoming import FORM, Wyoming, loud, speaking_wyoming, written

from edgeserve.api.wyoming.events import MAX_PAYLOAD
from edgeserve.connections import Connections
from edgeserve.protocols.bounded import HANGUP
from edgeserve.protocols.wyoming import HELD_BYTES, HELD_EVENTS


@pytest.fixture(scope="module")
def short() -> Iterator[Wyoming]:
    """A server of little patience."""
    with speaking_wyoming(fake_pool(["asr", "tts"]), patience=SHORT, live_idle_seconds=1) as running:
        yield running


@pytest.mark.parametrize(
    "nonsense", [b"GET / HTTP/1.1\r\n\r\n", b'{"type": "x", "data_length": 99999999}\n', b"\0" * 70_000]
)
def test_what_is_no_event_is_an_error_and_the_end(short: Wyoming, nonsense: bytes) -> None:
    with short.dialled() as client:
        client.link.sendall(nonsense)
        event = client.read()
        assert event is not None
        assert event.type == "error"
        assert client.read() is None


def test_events_before_nonsense_are_answered(short: Wyoming) -> None:
    with short.dialled() as client:
        client.link.sendall(written("ping") + b"nonsense\n" + written("ping"))
        assert [one.type for one in client.until("error")] == ["pong", "error"]
        assert client.read() is None


def test_an_event_byte_by_byte(short: Wyoming) -> None:
    with short.dialled() as client:
        for byte in written("ping", {"text": "slow"}):
            client.link.sendall(bytes([byte]))
        assert client.until("pong")[-1].data == {"text": "slow"}


def test_connections_without_a_whole_event_are_closed(short: Wyoming) -> None:
    """All at once, as each waits for its end."""
    begun = (b"", b'{"type": ', b'{"type": "ping", "data_length": 10}\n{')
    with contextlib.ExitStack() as all_:
        clients = [all_.enter_context(short.dialled()) for _ in begun]
        for sent, client in zip(begun, clients, strict=True):
            client.link.sendall(sent)
        assert [client.read() for client in clients] == [None] * len(clients)


@pytest.mark.slow
def test_an_idle_connection_is_closed(short: Wyoming) -> None:
    with short.dialled() as client:
        client.send("audio-start", FORM)
        assert client.read() is None
    until(lambda: len(short.running.app.state.sessions) == 0)


def test_places_are_limited_and_shared_with_http() -> None:
    connections = Connections(2)
    with speaking_wyoming(fake_pool(["asr"]), connections=connections) as running:
        with dialled(running.running):
            until(lambda: len(connections) == 1)
            with running.dialled() as client:  # an idle connection gives its place
                client.send("ping")
                client.until("pong")
                assert len(connections) == 1
                client.send("audio-start", FORM)
                client.send("audio-chunk", FORM, loud(0.1))
                client.send("ping")
                client.until("pong")
                with running.dialled() as other:
                    event = other.read()
                    assert event is not None
                    assert (event.type, event.data["code"]) == ("error", "queue_full")
                    assert other.read() is None
        until(lambda: len(connections) == 0)


@pytest.mark.slow
def test_a_client_that_does_not_read_is_paused() -> None:
    """The server holds few bytes of the answer, and reads no further events; later the client gets all."""
    pool = fake_pool(["tts"])
    text = " ".join(["word"] * 400)
    with speaking_wyoming(pool) as running, running.dialled(receive_bytes=4096) as client:
        for _ in range(3):
            client.send("synthesize", {"text": text})
        until(lambda: any(not one._writable.is_set() for one in list(running.running.server.server_state.connections)))
        size = sum(len(one.payload) for _ in range(3) for one in client.until("audio-stop"))
        assert size == 3 * 400 * 4800


@pytest.mark.slow
def test_a_client_that_never_reads_is_cut(short: Wyoming) -> None:
    gate = short.running.pool.gates["tts"]
    held = Held(engine_of(gate))
    with short.dialled(receive_bytes=4096) as client:
        client.send("synthesize", {"text": " ".join(["word"] * 2000)})
        assert held.entered.wait(PATIENCE_SECONDS)
        assert gate.leases == 1
        held.go.set()
        until(lambda: gate.leases == 0)
        until(lambda: not short.running.server.server_state.connections)


@pytest.mark.skipif(HANGUP is None, reason="this system tells of a client that has gone only to who reads")
def test_a_client_that_sends_ahead_and_leaves_frees_the_engine() -> None:
    pool = fake_pool(["tts"])
    with speaking_wyoming(pool, patience=SHORT) as running:
        held = Held(engine_of(pool.gates["tts"]))
        with running.dialled() as client:
            client.send("synthesize", {"text": "One."})
            assert held.entered.wait(10)
            client.link.sendall(written("ping") * (HELD_EVENTS + 10))
        until(lambda: not running.running.server.server_state.connections)
        held.go.set()
        until(lambda: pool.gates["tts"].leases == 0)


def test_events_that_are_sent_ahead_wait_in_the_system() -> None:
    pool = fake_pool(["tts"])
    with speaking_wyoming(pool) as running, running.dialled(timeout=0.3) as client:
        held = Held(engine_of(pool.gates["tts"]))
        client.send("synthesize", {"text": "One."})
        assert held.entered.wait(10)
        sent = written("audio-chunk", FORM, bytes(MAX_PAYLOAD // 4)) * 200
        with pytest.raises(TimeoutError):
            client.link.sendall(sent)
        (one,) = running.running.server.server_state.connections
        assert one._held <= HELD_BYTES + MAX_PAYLOAD  # type: ignore[attr-defined]
        held.go.set()


def test_headers_that_are_sent_ahead_wait_in_the_system() -> None:
    """Their values count: one connection made them take 90 MB."""
    pool = fake_pool(["tts"])
    with speaking_wyoming(pool) as running, running.dialled(timeout=0.3) as client:
        held = Held(engine_of(pool.gates["tts"]))
        client.send("synthesize", {"text": "One."})
        assert held.entered.wait(10)
        line = b'{"type": "ping", "data": {"lists": [' + b"[]," * 400 + b"[]]}}\n"
        with pytest.raises(TimeoutError):
            client.link.sendall(line * 10_000)
        (one,) = running.running.server.server_state.connections
        assert len(one._inbox) < 8  # type: ignore[attr-defined]
        held.go.set()


@pytest.mark.unforeseen
def test_an_unforeseen_error_ends_its_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    pool = fake_pool(["tts"])
    with speaking_wyoming(pool) as running:
        pool.directory.of = None  # type: ignore[assignment, method-assign]
        with caplog.at_level(logging.ERROR), running.dialled() as client:
            client.send("describe")
            assert client.read() is None
        assert "failed unforeseen" in caplog.text
        with running.dialled() as client:
            client.send("ping")
            client.until("pong")


def test_an_utterance_under_way_is_told_that_the_server_ends() -> None:
    with speaking_wyoming(fake_pool(["asr"])) as running, running.dialled() as idle, running.dialled() as client:
        client.send("audio-start", FORM)
        for one in (idle, client):
            one.send("ping")
            one.until("pong")
        running.running.server.should_exit = True
        assert client.until("error")[-1].data["code"] == "shutting_down"
        assert client.read() is None
        assert idle.read() is None


def test_an_answer_under_way_ends_whole_though_the_server_ends() -> None:
    pool = fake_pool(["tts"])
    with speaking_wyoming(pool) as running, running.dialled() as client:
        held = Held(engine_of(pool.gates["tts"]))
        client.send("synthesize", {"text": "One."})
        assert held.entered.wait(10)
        running.running.server.should_exit = True
        until(lambda: pool.ending)
        held.go.set()
        assert sum(len(one.payload) for one in client.until("audio-stop")) == 4800
        assert client.read() is None


def test_a_header_may_hold_the_data(short: Wyoming) -> None:
    with short.dialled() as client:
        client.link.sendall(json.dumps({"type": "ping", "data": {"text": "here"}}).encode() + b"\n")
        assert client.until("pong")[-1].data == {"text": "here"}


def test_events_count_as_requests_and_pings_do_not(short: Wyoming) -> None:
    """Short requests fall between two looks at the connections: their number keeps the server from an idle end."""
    state = short.running.server.server_state
    before = state.total_requests
    with short.dialled() as client:
        client.link.sendall(written("ping") * 3)
        client.until("pong")
        assert state.total_requests == before
        client.link.sendall(written("describe"))
        client.until("info")
        assert state.total_requests == before + 1
