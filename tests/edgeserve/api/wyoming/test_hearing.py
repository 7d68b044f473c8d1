"""Speech to text. The fake engine says "1", "2", … for each second of sound."""

from __future__ import annotations

from typing import Any

import pytest
from support.gates import engine_of
from support.server import fake_pool, until
from support.wyoming import FORM, Client, Event, Wyoming, loud, speaking_wyoming


def say(client: Client, sound: bytes, form: dict[str, int] | None = None, step: int = 3200) -> None:
    form = form or FORM
    client.send("audio-start", form)
    for start in range(0, len(sound), step):
        client.send("audio-chunk", form, sound[start : start + step])
    client.send("audio-stop", {"timestamp": 1000})


def test_an_utterance(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("transcribe", {"language": "en-US"})
        say(client, loud(2.5) + bytes(16_000))
        events = client.until("transcript-stop")
    kinds = [one.type for one in events]
    assert kinds[0] == "transcript-start"
    assert kinds[-2:] == ["transcript", "transcript-stop"]
    assert events[0].data == {"language": "en"}
    assert events[-2].data == {"text": "1 2 3", "language": "en"}
    chunks = [one.data["text"] for one in events if one.type == "transcript-chunk"]
    assert "".join(chunks) == "1 2 3"


def test_words_leave_before_the_sound_has_ended(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("audio-start", FORM)
        events: list[Event] = []
        while not any(one.type == "transcript-chunk" for one in events):
            assert len(events) < 100
            client.send("audio-chunk", FORM, loud(1.0))
            client.send("ping")
            events += client.until("pong")
        assert next(one.data["text"] for one in events if one.type == "transcript-chunk").startswith("1")


@pytest.mark.parametrize(
    ("rate", "channels"), [(8_000, 1), (22_050, 1), (44_100, 2), (48_000, 1)], ids=["8", "22", "44x2", "48"]
)
def test_sound_of_another_form(wyoming: Wyoming, rate: int, channels: int) -> None:
    with wyoming.dialled() as client:
        form = {"rate": rate, "width": 2, "channels": channels}
        say(client, loud(1.4, rate=rate, channels=channels), form, step=1001)  # chunks cut samples
        assert client.until("transcript")[-1].data == {"text": "1 2"}


def test_silence_is_an_empty_transcript(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        say(client, bytes(32_000))
        events = client.until("transcript-stop")
    assert [(one.type, one.data) for one in events] == [
        ("transcript-start", {}),
        ("transcript", {"text": ""}),
        ("transcript-stop", {}),
    ]


def test_a_second_utterance_on_the_connection_begins_afresh(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("transcribe", {"language": "de"})
        say(client, loud(1.0))
        assert client.until("transcript")[-1].data == {"text": "1", "language": "de"}
        say(client, loud(1.0))
        assert client.until("transcript")[-1].data == {"text": "1"}


def test_hints_reach_the_engine() -> None:
    pool = fake_pool(["asr"])
    with speaking_wyoming(pool) as running, running.dialled() as client:
        engine, seen = engine_of(pool.gates["asr"]), []
        transcribe = engine.transcribe

        def noted(request: Any, cancel: Any) -> Any:
            seen.append(request.prompt)
            return transcribe(request, cancel)

        engine.transcribe = noted
        client.send("transcribe", {"transcript_names": ["Ida", "Otto"], "transcript_terms": ["boiler"]})
        say(client, loud(0.5))
        client.until("transcript")
    assert seen
    assert seen[0].startswith("boiler, Ida, Otto")


@pytest.mark.parametrize(
    ("asked", "form", "code", "text"),
    [
        ({"language": "xx"}, FORM, "invalid_request", "unknown language 'xx'"),
        ({"name": "another"}, FORM, "model_not_found", "'another' is not served"),
        ({"language": 1}, FORM, "invalid_request", "language must be a string"),
        ({}, {**FORM, "rate": 16_001}, "invalid_request", "rate is 16001"),
        ({}, {**FORM, "width": 1}, "invalid_request", "width is 1"),
    ],
)
def test_an_utterance_that_cannot_be_heard_is_one_error(
    wyoming: Wyoming, asked: dict[str, Any], form: dict[str, int], code: str, text: str
) -> None:
    with wyoming.dialled() as client:
        client.send("transcribe", asked)
        say(client, loud(0.5), form)
        client.send("ping", {"text": "over"})
        events = client.until("pong")
        assert [one.type for one in events] == ["error", "pong"]
        assert events[0].data["code"] == code
        assert text in events[0].data["text"]
        say(client, loud(0.5))
        assert client.until("transcript")[-1].data == {"text": "1"}


def test_a_form_that_changes_within_an_utterance(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("audio-start", FORM)
        client.send("audio-chunk", {**FORM, "rate": 8_000}, bytes(100))
        assert "has changed" in client.until("error")[-1].data["text"]


def test_a_failing_engine_is_an_error() -> None:
    with speaking_wyoming(fake_pool(["asr"], fail_on="run")) as running, running.dialled() as client:
        say(client, loud(0.5))
        assert client.until("error")[-1].data["code"] == "engine_failure"
        client.send("ping")
        assert client.until("pong")


def test_no_model_for_speech() -> None:
    with speaking_wyoming(fake_pool(["llm"])) as running, running.dialled() as client:
        client.send("transcribe", {})
        assert client.until("error")[-1].data["code"] == "engine_not_configured"


def test_sessions_end_with_their_connection(wyoming: Wyoming) -> None:
    sessions = wyoming.running.app.state.sessions
    with wyoming.dialled() as client:
        client.send("audio-start", FORM)
        client.send("ping")
        client.until("pong")
        assert len(sessions) == 1
    with wyoming.dialled() as client:  # the server takes one connection after the other
        client.send("ping")
        client.until("pong")
    until(lambda: len(sessions) == 0)
