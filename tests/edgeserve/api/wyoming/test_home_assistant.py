"""Home Assistant's requests, replayed (homeassistant/components/wyoming): a connection for each."""

from __future__ import annotations

import json

from support.wyoming import Client, Event, Wyoming, loud

VERSION = "1.8.0"
AUDIO = {"rate": 16000, "width": 2, "channels": 1}


def line(kind: str, **data: object) -> bytes:
    """Header and data as its version of the package writes them."""
    body = json.dumps(data, ensure_ascii=False).encode() if data else b""
    head = {"type": kind, "version": VERSION} | ({"data_length": len(body)} if body else {})
    return json.dumps(head).encode() + b"\n" + body


def chunk(sound: bytes) -> bytes:
    body = json.dumps({**AUDIO, "timestamp": None}).encode()
    head = {"type": "audio-chunk", "version": VERSION, "data_length": len(body), "payload_length": len(sound)}
    return json.dumps(head).encode() + b"\n" + body + sound


def first(client: Client, *kinds: str) -> Event:
    """The first event of these types: Home Assistant passes over all others."""
    while True:
        event = client.read()
        assert event is not None
        if event.type in kinds:
            return event


def test_it_looks_what_there_is_and_leaves(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.link.sendall(line("describe"))
        info = first(client, "info").data
    assert all(one["attribution"].keys() == {"name", "url"} for kind in info.values() for one in kind)
    assert all(program["installed"] for kind in info.values() for program in kind)
    assert info["asr"][0]["models"][0]["languages"]
    assert info["tts"][0]["voices"][0]["languages"]


def test_it_transcribes(wyoming: Wyoming) -> None:
    sound = loud(1.5)
    with wyoming.dialled() as client:
        client.link.sendall(line("transcribe", language="en"))
        client.link.sendall(line("audio-start", **AUDIO, timestamp=None))
        for start in range(0, len(sound), 2048):
            client.link.sendall(chunk(sound[start : start + 2048]))
        client.link.sendall(line("audio-stop", timestamp=None))
        assert first(client, "transcript", "error").data["text"] == "1 2"


def test_it_speaks(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.link.sendall(line("synthesize", text="The light is on.", voice={"name": "hum"}))
        start = first(client, "audio-start", "error")
        assert start.data == {"rate": 24000, "width": 2, "channels": 1}
        size = 0
        while (event := first(client, "audio-chunk", "audio-stop")).type == "audio-chunk":
            size += len(event.payload)
        assert size == 4 * 4800


def test_it_speaks_while_its_model_writes(wyoming: Wyoming) -> None:
    parts = ["The", " light is", " on. The do", "or is locked."]
    with wyoming.dialled() as client:
        client.link.sendall(line("synthesize-start", voice={"name": "tone"}))
        for part in parts:
            client.link.sendall(line("synthesize-chunk", text=part))
        client.link.sendall(line("synthesize", text="".join(parts), voice={"name": "tone"}))
        client.link.sendall(line("synthesize-stop"))
        formats, size = [], 0
        while (event := first(client, "audio-start", "audio-chunk", "synthesize-stopped")).type != "synthesize-stopped":
            formats.append(tuple(event.data.items()))
            size += len(event.payload)
    assert len(set(formats)) == 1
    assert size == 8 * 4800


def test_it_converses(wyoming: Wyoming) -> None:
    context = {"conversation_id": "01JABC", "device_id": "x", "satellite_id": None}
    with wyoming.dialled() as client:
        client.link.sendall(line("transcript", text="is it raining", context=context, language="en"))
        answer = first(client, "intent", "not-recognized", "handled", "not-handled")
    assert (answer.type, answer.data["text"]) == ("handled", "is it raining")


def test_it_pings_with_a_header_that_holds_the_data(wyoming: Wyoming) -> None:
    """As the older versions of the package did."""
    with wyoming.dialled() as client:
        client.link.sendall(json.dumps({"type": "ping", "data": {"text": "x"}}).encode() + b"\n")
        assert first(client, "pong").data == {"text": "x"}
