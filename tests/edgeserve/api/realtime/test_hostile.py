"""Sessions of hostile clients: whatever they send, the session stays bounded, and others keep their turn."""

from __future__ import annotations

import array
import base64
import itertools
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples
from support.gates import engine_of
from support.server import fake_pool, serving, until
from support.sound import silence, speech
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.places import SILENT_SECONDS
from edgeserve.api.realtime import beta, commands
from edgeserve.api.realtime.asked import MAX_SOUNDS
from edgeserve.api.realtime.config import NEW, Config
from edgeserve.api.realtime.conversation import Conversation
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.tasks import MAX_SETTLING
from edgeserve.api.realtime.work import Settle
from edgeserve.clients import Client
from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.talk.forms import FORMS, PIECE
from edgeserve.units import MB

MULAW = FORMS["audio/pcmu"]
NAMES = sorted({*NEW, *NEW["audio"], *NEW["audio"]["input"], *NEW["audio"]["output"], *beta.OF_INPUT, *beta.OF_OUTPUT})
FIELDS = [*NAMES, "modalities", "metadata", "conversation", "input", "id", "role", "content", "text", "call_id", "name"]
TYPES = [*commands.COMMANDS, "message", "function_call", "function_call_output", "item_reference", "input_text", "x"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 600) | st.sampled_from([*TYPES, "", "user", "audio", "inf", "AAAA"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "type"]), inner, max_size=4),
    max_leaves=12,
)
EVENT_FIELDS = [
    "session",
    "item",
    "response",
    "audio",
    "item_id",
    "response_id",
    "event_id",
    "previous_item_id",
    "type",
]
EVENTS = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(sorted(commands.COMMANDS)),
    st.dictionaries(st.sampled_from(EVENT_FIELDS[:-1]), VALUES, max_size=3)
    | st.dictionaries(st.sampled_from(EVENT_FIELDS), VALUES, max_size=3),
)


def opened(**change: Any) -> Session:
    numbers = itertools.count(1)
    session = Session(
        Config.new(Limits()).changed(change, Limits()), Limits(), make_id=lambda kind: f"{kind}_{next(numbers)}"
    )
    session.begin()
    return session


def take(session: Session, event: dict[str, Any]) -> None:
    """Take an event as the socket does."""
    values = {
        name: beta.whole(value) if name in ("session", "response") and isinstance(value, dict) else value
        for name, value in event.items()
    }
    try:
        command = session.read(Fields(values))
        if isinstance(command, commands.Append):
            for piece in session.pieces(command):
                session.hear(piece)
        else:
            session.take(command)
    except EdgeserveError as error:
        session.fail(error)


@examples(150)
@given(st.lists(EVENTS, max_size=6))
def test_no_event_raises_anything_but_an_error_for_its_client(events: list[dict[str, Any]]) -> None:
    session = opened()
    for event in events:
        take(session, event)
        for told in session.out:
            assert beta.event(told) is None or json.dumps(beta.event(told))
            json.dumps(told)
        if session.response is not None:
            (session.response.speak if session.response.config.speaks else session.response.say)("a")
            session.response.end("completed")
            session.ended(session.response)


@each(
    "settings",
    [
        {"audio": None},
        {"audio": {"output": None}},
        {"audio": {"input": None, "output": None}},
        {"output_modalities": None},
        {"audio": 5, "voice": "x"},
        {"audio": {"input": "x"}, "turn_detection": None},
        {"audio": [], "input_audio_format": "pcm16"},
    ],
)
def test_settings_of_nothing_end_no_session(settings: dict[str, Any]) -> None:
    session = opened()
    take(session, {"type": "session.update", "session": settings})
    take(session, {"type": "response.create"})
    assert session.out[-1]["type"] == "response.created"
    assert all(beta.event(told) for told in session.out)


@pytest.mark.slow
def test_sounds_without_words_do_not_pile_up_in_the_conversation() -> None:
    session = opened(audio={"input": {"turn_detection": None}})
    for _ in range(Conversation.MOST + 60):
        session.hear(speech(0.15))
        take(session, {"type": "input_audio_buffer.commit"})
        settle = session.work.pop()
        assert isinstance(settle, Settle)
        session.not_transcribed(settle.item, EngineFailure("no engine"))
        session.out.clear()
    assert len(session.conversation.items) <= Conversation.MOST


def test_answers_alone_do_not_make_the_conversation_grow_without_end() -> None:
    session = opened(output_modalities=["text"])
    for _ in range(40):
        take(session, {"type": "response.create"})
        assert session.response is not None
        session.response.say("word " * 4000)
        response = session.response
        response.end("completed")
        session.ended(response)
        session.work.clear()
        session.out.clear()
    assert sum(one.size for one in session.conversation.items) <= Conversation.CHARS


def message(data: bytes) -> dict[str, Any]:
    part = {"type": "input_audio", "audio": base64.b64encode(data).decode()}
    return {"type": "message", "role": "user", "content": [part]}


def test_the_sound_of_an_item_is_no_work_of_the_event() -> None:
    """A minute of G.711 took the event loop a second: its conversion is work like the words."""
    session = opened(audio={"input": {"format": {"type": "audio/pcmu"}}})
    take(session, {"type": "conversation.item.create", "item": message(bytes(480_000))})
    [work] = session.work
    assert isinstance(work, Settle)
    assert (work.form, len(work.sound)) == (MULAW, 480_000)


@pytest.mark.parametrize("count", [MAX_SOUNDS, MAX_SOUNDS + 1])
def test_the_sounds_of_one_answer_are_bounded(count: int) -> None:
    session = opened()
    take(session, {"type": "response.create", "response": {"input": [message(bytes(9600))] * count}})
    assert (session.out[-1]["type"] == "error") == (count > MAX_SOUNDS)
    assert len([one for one in session.work if isinstance(one, Settle)]) == count % (MAX_SOUNDS + 1)


def mulaw(sound: bytes) -> bytes:
    """float32 at 16 kHz as G.711 at 8 kHz, by every second sample."""
    return MULAW.write(array.array("h", (int(one * 32767) for one in array.array("f", sound)[::2])))


def url(running: Any) -> str:
    return f"{running.url.replace('http', 'ws', 1)}/v1/realtime"


def append(sound: bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()})


@pytest.mark.slow
def test_one_event_of_many_turns_waits_as_many_events_do() -> None:
    go = threading.Event()
    with serving(fake_pool(["llm", "asr", "tts"]), live_sessions=4) as running, connect(url(running)) as socket:
        engine_of(running.pool.gates["asr"]).on_work = lambda: go.wait(30)  # type: ignore[attr-defined]
        detection = {"type": "server_vad", "silence_duration_ms": 100, "create_response": False}
        sound = {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": detection}}
        socket.send(json.dumps({"type": "session.update", "session": {"audio": sound}}))
        socket.send(append(mulaw(silence(0.3) + (speech(0.5) + silence(0.4)) * 30)))
        gate = running.pool.gates["asr"]
        until(lambda: gate.leases > MAX_SETTLING)
        for _ in range(100):
            assert running.client.get("/v1/health").status_code == 200
        assert gate.leases <= MAX_SETTLING + 2
        go.set()
        heard = 0
        while heard < 29:
            heard += json.loads(socket.recv(timeout=30))["type"] == "input_audio_buffer.committed"


def test_a_silent_session_makes_room_for_another_client() -> None:
    with serving(fake_pool(["llm", "asr", "tts"]), live_sessions=4) as running:
        places = running.app.state.places
        with connect(url(running)) as socket, connect(url(running)) as busy:
            busy.recv(timeout=10)
            with places.one(Client("", "10.0.0.1")), places.one(Client("", "10.0.0.2")):
                now = places.clock()
                places.clock = lambda: now + SILENT_SECONDS
                busy.send("{}")
                assert json.loads(busy.recv(timeout=10))["type"] == "error"
                with places.one(Client("", "10.0.0.3")):
                    socket.recv(timeout=10)
                    with pytest.raises(ConnectionClosed) as closed:
                        socket.recv(timeout=10)
                    busy.send("{}")
                    assert json.loads(busy.recv(timeout=10))["type"] == "error"
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        until(lambda: len(places) == 0)


def test_items_of_many_conversations_are_refused_where_their_client_keeps_too_much() -> None:
    """12 sessions full of texts took 22 MB of the serving process, which nobody counted."""
    text = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x" * 250_000}]}
    create = json.dumps({"type": "conversation.item.create", "item": text})
    with serving(fake_pool(["llm", "asr", "tts"])) as running:
        running.app.state.places.most_kept = 2 * MB
        traffic = running.pool.governor.accounts.traffic
        with connect(url(running)) as first, connect(url(running)) as second:
            for socket, answers in ((first, "conversation.item.done"), (second, "error")):
                socket.send(create)
                until_type(socket, answers)
            until(lambda: traffic.held == 4 * (250_000 + 64))
        until(lambda: traffic.held == 0)


def until_type(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while (event := json.loads(socket.recv(timeout=10)))["type"] != kind:
        pass
    return event


@examples(30)
@given(st.binary(max_size=3 * PIECE), st.integers(1, 1000))
def test_sound_may_be_cut_anywhere(data: bytes, size: int) -> None:
    session = opened(audio={"input": {"turn_detection": None}})
    for start in range(0, len(data), size):
        take(
            session,
            {"type": "input_audio_buffer.append", "audio": base64.b64encode(data[start : start + size]).decode()},
        )
    assert session.buffer.seconds <= len(data) / 48_000
