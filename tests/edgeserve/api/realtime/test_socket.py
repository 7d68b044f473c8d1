"""The WebSocket of conversations on fake engines, and the clients that may open one."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from support.gates import FAKES, engine_of
from support.server import Running, fake_pool, serving, until
from support.sound import pcm24, rattle, silence, speech
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from edgeserve.api.realtime import tasks
from edgeserve.engine import Cancel, Rung
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.logs import Folding
from edgeserve.messages import ChatEvent, ChatRequest

PATH = "/v1/realtime"
END = "response.done"


@pytest.fixture
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts"]), live_sessions=4) as one:
        yield one


def dial(running: Running, query: str = "", **options: Any) -> ClientConnection:
    return connect(f"{running.url.replace('http', 'ws', 1)}{PATH}{query}", **options)


def told(socket: ClientConnection) -> Any:
    return json.loads(socket.recv(timeout=10))


def until_told(socket: ClientConnection, kind: str) -> list[Any]:
    """Events up to the first of this type."""
    events = [told(socket)]
    while events[-1]["type"] != kind:
        events.append(told(socket))
    return events


def send(socket: ClientConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def say(socket: ClientConnection, sound: bytes) -> None:
    data = pcm24(sound)
    for start in range(0, len(data), 48_000):
        send(socket, "input_audio_buffer.append", audio=base64.b64encode(data[start : start + 48_000]).decode())


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def kinds(events: list[Any]) -> list[str]:
    """The types in their order, each once in a row."""
    found: list[str] = []
    for event in events:
        if not found or found[-1] != event["type"]:
            found.append(event["type"])
    return found


def test_noise_opens_no_turn_where_a_detector_listens(caplog: pytest.LogCaptureFixture) -> None:
    """The noise is loud before the speech is; the detector's model is cold at first."""
    with serving(fake_pool(["llm", "asr", "tts"], detects=True)) as running, dial(running) as socket:
        told(socket)
        say(socket, rattle(0.1))  # wakes the detector, whose model opens
        until(lambda: running.pool.gates["asr"].rung is Rung.HOT)
        say(socket, rattle(5) + silence(2) + speech(1) + silence(1))
        first, second = until_told(socket, "input_audio_buffer.speech_stopped")
        assert first["audio_start_ms"] == pytest.approx(6_800, abs=150)
        assert second["audio_end_ms"] == pytest.approx(8_600, abs=150)
    assert "found by loudness" not in caplog.text


def test_a_session_without_a_detector_says_so_once(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), dial(running) as socket:
        send(socket, "session.update", session={"instructions": "Be kind."})
        until_told(socket, "session.updated")
    assert caplog.text.count("the turns of a conversation are found by loudness: asr has no detector") == 1


@pytest.mark.slow
def test_loudness_takes_over_from_a_detector_that_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "ASK_AGAIN", 0.01)
    with serving(fake_pool(["llm", "asr", "tts"], detects=True, fail_on="detect")) as running, dial(running) as socket:
        say(socket, silence(0.5) + speech(4) + silence(4))
        assert kinds(until_told(socket, "input_audio_buffer.speech_stopped"))[1] == "input_audio_buffer.speech_started"
        until_told(socket, END)  # a client with unread events waits 10 s when it closes
    assert caplog.text.count("found by loudness: fake-asr failed on detect") == 1


def test_the_engines_of_an_answer_climb_while_the_user_still_speaks(running: Running) -> None:
    with dial(running) as socket:
        told(socket)
        say(socket, silence(0.5) + speech(1))
        until_told(socket, "input_audio_buffer.speech_started")
        # Words of the moment and the prompt that is read ahead hold a lease for a moment; a climb holds none.
        until(lambda: all(gate.rung is Rung.HOT and not gate.leases for gate in running.pool.gates.values()))


@pytest.mark.slow
def test_a_transcription_session_heats_its_model_alone(running: Running) -> None:
    with dial(running, "?intent=transcription") as socket:
        told(socket)
        say(socket, silence(0.5) + speech(1) + silence(1))
        until_told(socket, "conversation.item.input_audio_transcription.completed")
        assert [name for name, gate in running.pool.gates.items() if gate.rung is Rung.HOT] == ["asr"]


def test_a_dictation_tells_words_while_the_user_speaks(running: Running) -> None:
    kind = "conversation.item.input_audio_transcription."
    with dial(running, "?intent=transcription") as socket:
        told(socket)
        said = ""
        for _ in range(30):  # a second more until words have come twice alike
            say(socket, speech(1))
            send(socket, "input_audio_buffer.nothing")  # an error answers: all before it has been told
            events = until_told(socket, "error")
            said += "".join(one["delta"] for one in events if one["type"] == f"{kind}delta")
            if said:
                break
        assert said.startswith("1")
        say(socket, silence(1))
        events = until_told(socket, f"{kind}completed")
        said += "".join(one["delta"] for one in events if one["type"] == f"{kind}delta")
        assert said == events[-1]["transcript"]


def test_a_turn_ends_though_no_verdict_and_no_more_sound_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may send a recording at once and nothing after it. The turn lasted until more sound came."""
    monkeypatch.setattr(tasks, "ASK_AGAIN", 0.01)
    with serving(fake_pool(["llm", "asr", "tts"], detects=True, fail_on="detect")) as running, dial(running) as socket:
        say(socket, silence(0.5) + speech(4) + silence(1))
        until_told(socket, "input_audio_buffer.speech_stopped")


def test_a_turn_ends_though_its_end_comes_after_loudness_has_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sound that comes before the next question is decided as the sound before it was: after as many questions."""
    monkeypatch.setattr(tasks, "ASK_AGAIN", 0.2)
    monkeypatch.setattr(tasks, "MOST_QUESTIONS", 2)
    with serving(fake_pool(["llm", "asr", "tts"], detects=True, fail_on="detect")) as running, dial(running) as socket:
        say(socket, silence(0.2) + speech(0.6))
        until_told(socket, "input_audio_buffer.speech_started")
        say(socket, silence(1))
        until_told(socket, "input_audio_buffer.speech_stopped")


OPENING = ["response.created", "response.output_item.added", "conversation.item.added", "response.content_part.added"]
CLOSING = ["response.content_part.done", "response.output_item.done", "conversation.item.done", END]


HEARD = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
    "response.created",
]


def test_a_spoken_turn_is_answered_by_speech(running: Running) -> None:
    running.pool.stand_ins = True
    with dial(running, "?model=gpt-realtime") as socket:
        created = told(socket)
        assert (created["type"], created["session"]["object"]) == ("session.created", "realtime.session")
        send(socket, "session.update", session={"audio": {"input": {"transcription": {"model": "whisper-1"}}}})
        updated = told(socket)
        assert (updated["type"], updated["session"]["audio"]["output"]["voice"]) == ("session.updated", "alloy")
        say(socket, silence(0.5) + speech(2) + silence(1))
        events = until_told(socket, END)
    assert kinds(events)[:8] == HEARD
    started, stopped, committed, added = events[:4]
    assert started["item_id"] == stopped["item_id"] == committed["item_id"] == added["item"]["id"]
    assert 100 <= started["audio_start_ms"] <= 300
    assert 2900 <= stopped["audio_end_ms"] <= 3100
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    said = events[6]["transcript"]
    assert said.startswith("1 2")
    answer = kinds(events)[7:]
    assert answer[:4] == OPENING
    assert answer[-4:] == CLOSING
    assert set(answer[4:-4]) == {
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
    }
    done = events[-1]["response"]
    assert (done["status"], done["output"][0]["content"][0]["transcript"]) == ("completed", said)
    sound = b"".join(base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta")
    assert len(sound) == 2 * 2400 * len(said.split())
    assert done["usage"]["output_tokens"] == len(said.split())
    until(lambda: all(gate.leases == 0 for gate in running.pool.gates.values()))


class Noting(FakeBatchChat):
    """Notes its requests."""

    def _answers(self, request: ChatRequest, cancel: Cancel) -> Generator[ChatEvent | None, None, None]:
        SEEN.append(request)
        yield from super()._answers(request, cancel)


SEEN: list[ChatRequest] = []


@pytest.mark.slow
def test_the_prompt_of_an_answer_is_read_while_the_user_speaks() -> None:
    """The conversation at first, then also the words, once the turn may be over. The answer reads the same."""
    SEEN.clear()
    with serving(fake_pool(["llm", "asr", "tts"], fakes={**FAKES, "llm": Noting})) as running, dial(running) as socket:
        send(socket, "conversation.item.create", item=user("Be brief."))
        send(socket, "response.create", response={"output_modalities": ["text"]})
        until_told(socket, END)
        until(lambda: all(gate.leases == 0 for gate in running.pool.gates.values()))
        say(socket, silence(0.5) + speech(1))
        until(lambda: len(SEEN) == 2)
        until(lambda: running.pool.gates["llm"].leases == 0)
        say(socket, silence(0.3))
        until(lambda: len(SEEN) == 3)
        say(socket, silence(1))
        until_told(socket, END)
    _, begun, whole, answer = SEEN
    assert [one.max_tokens for one in (begun, whole, answer)] == [0, 0, None]
    assert [one.ahead for one in (begun, whole, answer)] == [True, True, False]
    assert whole.messages == answer.messages
    assert begun.messages == answer.messages[:-1]
    assert begun.salt == whole.salt == answer.salt


def test_an_answer_in_text(running: Running) -> None:
    with dial(running) as socket:
        told(socket)
        send(socket, "conversation.item.create", item=user("two words"))
        assert [told(socket)["type"], told(socket)["type"]] == ["conversation.item.added", "conversation.item.done"]
        send(socket, "response.create", response={"output_modalities": ["text"], "metadata": {"mine": "1"}})
        events = until_told(socket, END)
    text = ["response.output_text.delta", "response.output_text.done"]
    assert kinds(events) == [*OPENING, *text, *CLOSING]
    assert events[0]["response"]["metadata"] == events[-1]["response"]["metadata"] == {"mine": "1"}
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_text", "text": "two words"}]


def test_speech_only_as_open_webui_asks_for_it(running: Running) -> None:
    with dial(running) as socket:
        told(socket)
        send(socket, "session.update", session={"audio": {"input": {"turn_detection": None}}})
        assert told(socket)["session"]["audio"]["input"]["turn_detection"] is None
        asked = {"conversation": "none", "input": [user("say this")], "output_modalities": ["audio"]}
        send(socket, "response.create", response=asked)
        events = until_told(socket, END)
        assert "conversation.item.added" not in kinds(events)
        assert events[-1]["response"]["conversation_id"] is None
        send(socket, "conversation.item.retrieve", item_id=events[-1]["response"]["output"][0]["id"])
        assert told(socket)["error"]["code"] == "invalid_request"


def test_a_call_of_a_function_and_its_result(running: Running) -> None:
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
    with dial(running) as socket:
        told(socket)
        send(socket, "session.update", session={"tools": [tool]})
        told(socket)
        send(socket, "conversation.item.create", item=user('weather {"city": "Oslo"}'))
        until_told(socket, "conversation.item.done")
        send(socket, "response.create")
        events = until_told(socket, END)
        done = next(one for one in events if one["type"] == "response.function_call_arguments.done")
        assert (done["name"], json.loads(done["arguments"])) == ("weather", {"city": "Oslo"})
        assert "content_index" not in done
        call = events[-1]["response"]["output"][0]
        assert (call["type"], call["call_id"], call["status"]) == ("function_call", done["call_id"], "completed")
        output = {"type": "function_call_output", "call_id": done["call_id"], "output": "rain"}
        send(socket, "conversation.item.create", item=output)
        until_told(socket, "conversation.item.done")
        send(socket, "response.create")
        assert until_told(socket, END)[-1]["response"]["output"][0]["content"][0]["transcript"] == "rain"


def test_speech_interrupts_an_answer() -> None:
    with serving(fake_pool(["llm", "asr", "tts"], delay=0.02), live_sessions=4) as running, dial(running) as socket:
        told(socket)
        send(socket, "conversation.item.create", item=user("word. " * 400))
        until_told(socket, "conversation.item.done")
        send(socket, "response.create")
        for _ in range(2):  # so that the first clause has all its sound
            until_told(socket, "response.output_audio_transcript.delta")
        say(socket, speech(1))
        events = until_told(socket, END)
        assert "input_audio_buffer.speech_started" in kinds(events)
        assert events[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        item = events[-1]["response"]["output"][0]
        assert item["status"] == "incomplete"
        send(socket, "conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=110)
        truncated = until_told(socket, "conversation.item.truncated")[-1]
        assert (truncated["item_id"], truncated["audio_end_ms"]) == (item["id"], 110)
        send(socket, "conversation.item.retrieve", item_id=item["id"])
        kept = until_told(socket, "conversation.item.retrieved")[-1]["item"]["content"][0]["transcript"]
        assert kept.split() == ["word."]


def test_cancel_and_the_errors_that_clients_know(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_of(running.pool.gates["llm"]), "_delay", 0.02)
    with dial(running) as socket:
        told(socket)
        send(socket, "response.cancel", event_id="mine")
        error = told(socket)["error"]
        assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "mine")
        send(socket, "input_audio_buffer.commit")
        assert told(socket)["error"]["code"] == "input_audio_buffer_commit_empty"
        send(socket, "conversation.item.create", item=user("word " * 900))  # the context holds 1,024
        until_told(socket, "conversation.item.done")
        send(socket, "response.create")
        send(socket, "response.create")
        errors = until_told(socket, "error")
        assert errors[-1]["error"]["code"] == "conversation_already_has_active_response"
        send(socket, "response.cancel")
        done = until_told(socket, END)[-1]["response"]
        assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        for frame, code in (
            ("no JSON", "invalid_json"),
            ('{"type": "x"}', "unknown_message_type"),
            (b"x", "invalid_request"),
        ):
            socket.send(frame)
            assert told(socket)["error"]["code"] == code
    until(lambda: all(gate.leases == 0 for gate in running.pool.gates.values()))


def test_a_transcription_session_answers_nothing(running: Running) -> None:
    with dial(running, "?intent=transcription") as socket:
        session = told(socket)["session"]
        assert (session["type"], session["audio"]["input"]["transcription"]) == ("transcription", {})
        say(socket, speech(1) + silence(1))
        completed = until_told(socket, "conversation.item.input_audio_transcription.completed")[-1]
        assert completed["transcript"]
        assert completed["usage"]["type"] == "duration"
        send(socket, "response.create")
        assert "transcribes and answers nothing" in told(socket)["error"]["message"]


def test_the_beta_gets_its_own_names(running: Running) -> None:
    with dial(running, additional_headers={"OpenAI-Beta": "realtime=v1"}) as socket:
        assert told(socket)["session"]["input_audio_format"] == "pcm16"
        send(socket, "session.update", session={"modalities": ["text"], "turn_detection": None})
        session = told(socket)["session"]
        assert (session["modalities"], session["turn_detection"]) == (["text"], None)
        send(socket, "conversation.item.create", item=user("hello"))
        assert told(socket)["type"] == "conversation.item.created"
        send(socket, "response.create")
        events = until_told(socket, END)
        assert {"response.text.delta", "response.text.done"} <= set(kinds(events))
        assert events[-1]["response"]["output"][0]["content"] == [{"type": "text", "text": "hello"}]


def test_a_browser_brings_its_key_in_a_sub_protocol() -> None:
    with serving(fake_pool(["llm", "asr", "tts"]), api_key="secret") as running:
        for key, passes in (("secret", True), ("wrong", False)):
            offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{key}")]
            if passes:
                with dial(running, subprotocols=offered) as socket:
                    assert (told(socket)["type"], socket.subprotocol) == ("session.created", "realtime")
            else:
                with pytest.raises(InvalidStatus) as refused:
                    dial(running, subprotocols=offered)
                assert refused.value.response.status_code == 401


def test_foreign_pages_and_too_many_sessions_are_refused(running: Running) -> None:
    with pytest.raises(InvalidStatus) as foreign:
        dial(running, origin="https://evil.example")
    assert foreign.value.response.status_code == 403
    with dial(running), dial(running), pytest.raises(InvalidStatus) as full:
        dial(running)
    assert full.value.response.status_code == 503
    until(lambda: len(running.app.state.places) == 0)
    with dial(running) as again:
        assert told(again)["type"] == "session.created"


def test_a_model_that_is_not_served_is_told_and_the_connection_closed(running: Running) -> None:
    with dial(running, "?model=nobody-has-this") as socket:
        error = told(socket)["error"]
        assert error["code"] == "model_not_found"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


def test_a_plain_request_is_answered_426(running: Running) -> None:
    answer = running.client.get(PATH)
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


def test_a_failing_engine_fails_the_answer_and_not_the_session() -> None:
    with (
        serving(fake_pool(["llm", "asr", "tts"], fail_word="bad"), live_sessions=4) as running,
        dial(running) as socket,
    ):
        told(socket)
        for text, status in (("a bad word", "failed"), ("a good word", "completed")):
            send(socket, "conversation.item.create", item=user(text))
            send(socket, "response.create", response={"output_modalities": ["text"]})
            assert until_told(socket, END)[-1]["response"]["status"] == status


def test_unknown_fields_fill_no_log(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Each event wrote a line of 4 KB, which did not fold: a client wrote 1.7 MB a second."""
    caplog.set_level("INFO")
    with dial(running) as socket:
        for _ in range(30):
            send(socket, "input_audio_buffer.clear", **{f"f{at}" + "x" * 100: 1 for at in range(64)})
        send(socket, "x")
        until_told(socket, "error")
    folding = Folding(limit=10)
    found = [one for one in caplog.records if "unknown fields" in one.getMessage() and folding.filter(one)]
    assert len(found) == 10
    assert all(len(one.getMessage()) < 1100 for one in found)
