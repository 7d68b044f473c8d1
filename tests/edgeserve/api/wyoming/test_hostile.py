"""Hostile clients of Wyoming: what one sends takes no turn of the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from typing import Any

import pytest
from support.gates import PATIENCE_SECONDS
from support.server import until
from support.wyoming import Wyoming, written
from uvicorn.server import ServerState

from edgeserve.api.bodies import SHARE, Bodies
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import VALUE_BYTES
from edgeserve.api.limits import Limits
from edgeserve.api.wyoming.events import MAX_DATA, MAX_DATA_VALUES, MAX_PAYLOAD, Received
from edgeserve.api.wyoming.fields import HINT_CHARS, MOST_HINTS, PROMPT_CHARS, Transcribe
from edgeserve.connections import BACKLOG, Patience
from edgeserve.memory.traffic import Traffic
from edgeserve.protocols.rota import Rota
from edgeserve.protocols.wyoming import WyomingConnection
from edgeserve.units import MB
from edgeserve.wyoming import MOST_EVENTS


@pytest.mark.parametrize("mark", ["A. ", "1. ", "Mr. ", "a. ", "\n", ".", "x"])
def test_no_text_in_parts_takes_the_turn_of_others(wyoming: Wyoming, mark: str) -> None:
    """Initials in a row were searched for their end again with each of them: 6 KB took three seconds."""
    with wyoming.dialled() as hostile, wyoming.dialled() as other:
        hostile.send("synthesize-start", {"voice": {}})
        hostile.send("synthesize-chunk", {"text": mark * (100_000 // len(mark))})
        hostile.send("ping", {"text": "read"})
        hostile.until("pong")
        other.send("ping", {"text": "on"})
        assert other.until("pong")[-1].data == {"text": "on"}


@pytest.mark.parametrize(
    "sent",
    [
        b'{"type": "ping", "data_length": 99999999999}\n',
        b'{"type": "ping", "data_length": -1}\n',
        b'{"type": "ping", "payload_length": 1e9}\n',
        b'{"type": "ping", "payload_length": true}\n',
        b'{"type": "ping", "data": []}\n',
        b'{"type": []}\n',
        b"{" * 70_000,
        b"[" * 60_000 + b"\n",
        b'{"type": "' + b"x" * 60_000 + b'"}\n',
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\xff\n",
        b'{"type": "ping", "data_length": 2}\n[]',
        b'{"type": "ping", "data_length": 4}\n\xff\xff\xff\xff',
        b'{"type": "audio-chunk", "payload_length": 3, "data": {"rate": 8000, "width": 2, "channels": 8}}\nabc',
        b'{"type": "audio-chunk", "payload_length": 3, "data": {"rate": 7, "width": 3, "channels": 9}}\nabc',
        b'{"type": "transcribe", "data": {"language": {"a": 1}}}\n',
    ],
)
def test_lies_and_nonsense_are_one_error_of_their_own_connection(wyoming: Wyoming, sent: bytes) -> None:
    with wyoming.dialled() as hostile, wyoming.dialled() as other:
        with contextlib.suppress(ConnectionError):  # the server may have closed it
            hostile.link.sendall(sent + written("audio-stop") + written("ping"))
        told = hostile.read()
        assert told is None or told.type in ("error", "pong", "transcript-start")
        other.send("ping", {"text": "on"})
        assert other.until("pong")[-1].data == {"text": "on"}


def test_events_that_do_not_end_take_memory_of_their_own_client_alone(wyoming: Wyoming) -> None:
    """Connections of one client held 2 MB each: 240 of them 500 MB, which no limit counted."""
    traffic = wyoming.running.pool.governor.accounts.traffic
    lengths = {"type": "x", "data_length": MAX_DATA, "payload_length": MAX_PAYLOAD}
    part = json.dumps(lengths).encode() + b"\n" + b"a" * (MAX_DATA + MAX_PAYLOAD - 1)
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(wyoming.dialled()) for _ in range(20)]
        for one in clients:
            with contextlib.suppress(ConnectionError):  # cut as the slowest
                one.link.sendall(part)
        other = held.enter_context(wyoming.dialled())
        other.send("ping", {"text": "on"})
        assert other.until("pong")[-1].data == {"text": "on"}
        until(lambda: traffic.held > 10 * MB)
        assert traffic.held < (SHARE + 1) * MOST_EVENTS
    until(lambda: traffic.held == 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how many connections a port queues")
def test_a_burst_of_connections_waits_at_the_port(wyoming: Wyoming) -> None:
    """The port queued 16. Beside bursts of 60, other clients connected in 1 to 3 s."""
    port: Any = wyoming.running.server.ports[0]
    told = port._listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
    assert struct.unpack_from("I", told, 28) == (BACKLOG,)  # tcpi_sacked, of a socket that listens


def test_hints_take_little_memory_of_a_connection() -> None:
    """A connection kept 400,000 characters of hints as long as it sent a ping now and then: 1.6 MB."""
    names = [*["\U0001f600" * HINT_CHARS] * (MOST_HINTS - 1), "Ida"]
    prompt = Transcribe(Fields({"transcript_names": names}), Limits()).prompt
    assert len(prompt) == PROMPT_CHARS
    assert prompt.endswith(", Ida")


def test_data_of_many_values_are_an_error(wyoming: Wyoming) -> None:
    """An unread answer to them kept the values, which take many times their bytes."""
    with wyoming.dialled() as client:
        client.send("ping", {"text": "x", "more": [1] * MAX_DATA_VALUES})
        assert "values" in client.until("error")[-1].data["text"]
        client.send("ping", {"text": "on"})
        client.until("pong")


class Slow:
    """A dialogue whose events take no time and never wait."""

    open = False

    def __init__(self, order: list[str], name: str, done: asyncio.Event) -> None:
        self._order, self._name, self._done = order, name, done

    async def take(self, event: Received) -> None:
        self._order.append(self._name)
        if len(self._order) == 40:
            self._done.set()

    async def close(self) -> None:
        """Nothing is open."""


class Hushing(Slow):
    """A dialogue that ends a speech first, and takes the end of its connection for that of the speech."""

    async def take(self, event: Received) -> None:
        self._done.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


class Registry:
    clock = staticmethod(lambda: 0.0)

    def __init__(self) -> None:
        self.removed: list[Any] = []

    def admit(self, one: Any) -> bool:
        return True

    def remove(self, one: Any) -> None:
        self.removed.append(one)


class Transport:
    may_read = True

    def get_protocol(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **named: None


class Reading:
    def forget(self, one: Any) -> None: ...


def connected(bodies: Bodies, dialogue: Slow) -> WyomingConnection:
    one = WyomingConnection(
        lambda client, send: dialogue,  # type: ignore[arg-type,return-value]
        ServerState(),
        bodies,
        Rota(),
        60.0,
        connections=Registry(),
        patience=Patience(),
        reading=Reading(),
    )
    one.connection_made(Transport())
    return one


@pytest.mark.parametrize("behind", [b"", written("transcript", {"text": "A question."})])
def test_a_client_that_goes_while_a_speech_ends_keeps_no_place(behind: bytes) -> None:
    """It kept its place for ever: 23 of 150 that went in the middle of a second synthesize-start.

    Nothing ``behind`` is answered: an engine would work for nobody.
    """

    async def run() -> None:
        hushing = asyncio.Event()
        one = connected(Bodies(MB, 0.0), Hushing([], "", hushing))
        one.data_received(written("synthesize-start") + behind)
        await asyncio.wait_for(hushing.wait(), PATIENCE_SECONDS)
        one.connection_lost(None)
        assert one._task is not None
        await asyncio.wait([one._task], timeout=PATIENCE_SECONDS)
        assert one._task.done()
        assert one.admitted.removed == [one]  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_connection_that_ends_before_its_dialogue_begins_keeps_no_place() -> None:
    async def run() -> None:
        one = connected(Bodies(MB, 0.0), Slow([], "", asyncio.Event()))
        one.connection_lost(None)
        assert one._task is not None
        await asyncio.wait([one._task], timeout=PATIENCE_SECONDS)
        await asyncio.sleep(0)
        assert one.admitted.removed == [one]  # type: ignore[attr-defined]

    asyncio.run(run())


def test_connections_take_turns_event_by_event() -> None:
    async def run() -> list[str]:
        order, done = list[str](), asyncio.Event()
        made = [connected(Bodies(MB, 0.0), Slow(order, name, done)) for name in "ab"]
        for one in made:
            one.data_received(written("describe") * 20)
        await asyncio.wait_for(done.wait(), 20)
        for one in made:
            one.connection_lost(None)
        return order

    assert json.dumps(asyncio.run(run())[:4]) == '["a", "b", "a", "b"]'


def test_events_before_nonsense_count() -> None:
    """They did not. Where memory was short, the second one was refused as an unforeseen error behind the first."""

    async def run() -> int:
        traffic = Traffic()
        one = connected(Bodies(MB, 0.0, traffic=traffic), Slow([], "", asyncio.Event()))
        one.data_received(b'{"type": "ping", "data": {"more": [%s0]}}\n' % (b"0," * 900) * 2 + b"nonsense\n")
        held = traffic.held
        one.connection_lost(None)
        return held

    assert asyncio.run(run()) > 2 * 900 * VALUE_BYTES
