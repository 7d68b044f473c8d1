"""Text to speech. The fake engine makes a tenth of a second for each word, 24 kHz."""

from __future__ import annotations

import pytest
from support.gates import Held, engine_of
from support.server import fake_pool, until
from support.wyoming import Event, Wyoming, speaking_wyoming

FORM = {"rate": 24_000, "width": 2, "channels": 1}
WORD = 4800
"""Bytes of a word."""


def sound(events: list[Event]) -> bytes:
    assert all(one.data == FORM for one in events if one.type in ("audio-start", "audio-chunk"))
    return b"".join(one.payload for one in events if one.type == "audio-chunk")


def test_a_text(wyoming: Wyoming) -> None:
    events = wyoming.ask("synthesize", {"text": "One two three."}, until="audio-stop")
    assert events[0].type == "audio-start"
    assert {one.type for one in events[1:-1]} == {"audio-chunk"}
    assert len(sound(events)) == 3 * WORD
    assert max(len(one.payload) for one in events) == 2048


def test_a_voice(wyoming: Wyoming) -> None:
    plain = wyoming.ask("synthesize", {"text": "One."}, until="audio-stop")
    other = wyoming.ask("synthesize", {"text": "One.", "voice": {"name": "hum"}}, until="audio-stop")
    assert len(sound(plain)) == len(sound(other))
    assert sound(plain) != sound(other)


def test_a_text_in_parts(wyoming: Wyoming) -> None:
    """The whole text between start and stop is for servers that know no parts."""
    text = "This is the first sentence. And th", "is is the second", " one.\nThe end"
    with wyoming.dialled() as client:
        client.send("synthesize-start", {"voice": {"name": "hum"}})
        for part in text:
            client.send("synthesize-chunk", {"text": part})
        client.send("synthesize", {"text": "".join(text)})
        client.send("synthesize-stop")
        events = client.until("synthesize-stopped")
    assert [one.type for one in events if one.type != "audio-chunk"] == [
        "audio-start",
        "audio-stop",
        "synthesize-stopped",
    ]
    assert len(sound(events)) == len("".join(text).split()) * WORD


def test_a_sentence_is_spoken_while_the_next_is_written(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("synthesize-start")
        client.send("synthesize-chunk", {"text": "The first sentence is whole. The second"})
        events = client.until("audio-chunk")
        client.send("synthesize-chunk", {"text": " is not."})
        client.send("synthesize-stop")
        events += client.until("synthesize-stopped")
    assert len(sound(events)) == 9 * WORD


@pytest.mark.parametrize("text", ["", "  \n"])
def test_parts_without_words_are_a_speech_without_sound(wyoming: Wyoming, text: str) -> None:
    with wyoming.dialled() as client:
        client.send("synthesize-start", {})
        client.send("synthesize-chunk", {"text": text})
        client.send("synthesize-stop")
        assert [one.type for one in client.until("synthesize-stopped")] == [
            "audio-start",
            "audio-stop",
            "synthesize-stopped",
        ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"text": " "}, "text is required"),
        ({"text": "One.", "voice": {"name": "nobody"}}, "unknown voice 'nobody'"),
        ({"text": "<speak>One.</speak>", "text_format": "ssml"}, "text_format 'ssml' is not understood"),
        ({"text": "One.", "voice": "hum"}, "voice must be an object"),
        ({"text": "x" * 262_145}, "the limit is 262144"),
    ],
)
def test_a_text_that_cannot_be_said(wyoming: Wyoming, data: dict[str, object], text: str) -> None:
    """Clients wait for audio-stop, whatever comes before it."""
    events = wyoming.ask("synthesize", data, until="audio-stop")
    assert [one.type for one in events] == ["error", "audio-stop"]
    assert text in events[0].data["text"]


def test_parts_in_an_unknown_voice_are_one_error(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("synthesize-start", {"voice": {"name": "nobody"}})
        client.send("synthesize-chunk", {"text": "One. Two. "})
        client.send("synthesize", {"text": "One. Two. "})
        client.send("synthesize-stop")
        assert [one.type for one in client.until("synthesize-stopped")] == ["error", "synthesize-stopped"]
        client.send("synthesize", {"text": "One."})
        assert len(sound(client.until("audio-stop"))) == WORD


def test_an_engine_that_fails_within_parts() -> None:
    with speaking_wyoming(fake_pool(["tts"], fail_on="run")) as running, running.dialled() as client:
        client.send("synthesize-start")
        for _ in range(3):
            client.send("synthesize-chunk", {"text": "A sentence that fails. "})
        client.send("synthesize-stop")
        events = client.until("synthesize-stopped")
    assert [one.type for one in events] == ["error", "synthesize-stopped"]
    assert events[0].data["code"] == "engine_failure"


def test_parts_that_are_too_long() -> None:
    with speaking_wyoming(fake_pool(["tts"]), max_text_chars=20) as running, running.dialled() as client:
        client.send("synthesize-start")
        for _ in range(4):
            client.send("synthesize-chunk", {"text": "abcdefgh "})
        client.send("synthesize-stop")
        events = client.until("synthesize-stopped")
    assert [one.data["code"] for one in events if one.type == "error"] == ["too_large"]


def test_a_client_that_leaves_frees_the_engine() -> None:
    pool = fake_pool(["tts"])
    with speaking_wyoming(pool) as running:
        held = Held(engine_of(pool.gates["tts"]))
        with running.dialled() as client:
            client.send("synthesize-start")
            client.send("synthesize-chunk", {"text": "One sentence that is whole. "})
            assert held.entered.wait(10)
        until(lambda: not running.running.server.server_state.connections)
        held.go.set()
        until(lambda: pool.gates["tts"].leases == 0)
