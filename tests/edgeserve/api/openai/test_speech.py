"""OpenAI's speech in every format, judged by the official client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import struct
from functools import partial
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from support.gates import HeldAnswer, engine_of
from support.server import fake_pool, serving, until
from support.speech import decoded, likeness

from edgeserve.api.openai import speech
from edgeserve.audio import files
from edgeserve.audio.encode import FORMS, Codec, Encoded, Form
from edgeserve.errors import InvalidRequest

TEXT = "good morning. it is a fine day."
SECONDS = 0.7
"""Seconds of speech that the fake engine makes of the text."""
MEDIA_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


def said(ai: OpenAI, **settings: Any) -> bytes:
    return ai.audio.speech.create(model="tts", voice="tone", input=TEXT, **settings).content


def streamed(ai: OpenAI, **settings: Any) -> tuple[bytes, str]:
    with ai.audio.speech.with_streaming_response.create(model="tts", voice="tone", input=TEXT, **settings) as answer:
        return b"".join(answer.iter_bytes()), answer.headers["content-type"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_every_format(ai: OpenAI, name: str) -> None:
    file, media_type = streamed(ai, response_format=name)
    assert media_type == MEDIA_TYPES[name]
    heard, rate = decoded(file, name)
    assert abs(len(heard) / rate - SECONDS) < 0.1
    plain, at = decoded(said(ai, response_format="wav"), "wav")
    assert likeness(plain, at, heard, rate) > 0.9


def test_fields_of_other_servers_change_nothing(ai: OpenAI) -> None:
    """As LocalAI's and Kokoro-FastAPI's clients send them."""
    fields = {"lang_code": "a", "backend": "kokoro"}
    answer = ai.audio.speech.with_raw_response.create(
        model="tts", voice="tone", input=TEXT, instructions="Speak softly.", extra_body=fields
    )
    assert "x-edgeserve-ignored" not in answer.headers
    assert answer.content == said(ai)


def test_mp3_is_what_is_meant_where_nothing_is_said(ai: OpenAI) -> None:
    file = said(ai)
    assert file[:2] == b"\xff\xf3"
    assert file == said(ai, response_format="mp3") == said(ai, stream_format="audio")


def test_a_wav_file_tells_its_length_unless_it_is_streamed(ai: OpenAI) -> None:
    file = said(ai, response_format="wav")
    assert struct.unpack("<I", file[40:44])[0] == len(file) - 44 == int(SECONDS * 48_000)
    stream, _ = streamed(ai, response_format="wav", stream_format="audio")
    assert struct.unpack("<I", stream[40:44])[0] == 0xFFFFFFFF
    assert stream[44:] == file[44:] == said(ai, response_format="pcm")


@pytest.mark.parametrize("name", FORMS)
def test_events(ai: OpenAI, name: str) -> None:
    lines, media_type = streamed(ai, response_format=name, stream_format="sse")
    assert media_type.startswith("text/event-stream")
    told = [json.loads(line.removeprefix(b"data: ")) for line in lines.splitlines() if line]
    assert {one["type"] for one in told[:-1]} == {"speech.audio.delta"}
    assert len(told) >= 3
    assert told[-1]["type"] == "speech.audio.done"
    tokens = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert told[-1]["usage"] == {**tokens, "input_characters": len(TEXT), "output_seconds": SECONDS}
    file = b"".join(base64.b64decode(one["audio"]) for one in told[:-1])
    same, _ = streamed(ai, response_format=name, stream_format="audio")
    assert decoded(file, name)[0].tolist() == decoded(same, name)[0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_sound_leaves_while_more_is_made_and_a_client_that_leaves_ends_it(name: str) -> None:
    """The first sentence comes while the second is held up. Then the client leaves: no third one begins."""
    sentence = "one two three four five."
    with serving(fake_pool(["tts"])) as running, contextlib.ExitStack() as stack:
        wav = running.client.post("/v1/tts/synthesize", json={"text": sentence}).content
        size = len(FORMS[name].encoder(24_000).add(wav[44:]))
        gate = running.pool.gates["tts"]
        held = stack.enter_context(HeldAnswer(gate))
        body = {"input": sentence * 600, "response_format": name, "stream_format": "audio"}
        with running.client.stream("POST", "/v1/audio/speech", json=body) as answer:
            chunks, file = answer.iter_bytes(), b""  # chunks kept: closing it would close the connection
            while len(file) < size:
                file += next(chunks)
            heard, rate = decoded(file, name)
            assert len(heard) / rate > 0.25
            assert gate.leases == 1
            until(lambda: held.begun == 2)
        until(lambda: all(work.cancel.is_set() for work in gate.work))
        assert held.begun == 2
        held.go.set()
        assert running.client.post("/v1/tts/synthesize", json={"text": "next"}).status_code == 200
        assert held.begun == 3


@pytest.mark.parametrize(
    ("settings", "param", "words"),
    [
        ({"response_format": "ogg"}, "response_format", "must be one of mp3, opus, aac, flac, wav, pcm, not 'ogg'"),
        ({"stream_format": "rtp"}, "stream_format", "must be audio or sse, not 'rtp'"),
    ],
)
def test_unknown_formats_are_refused(ai: OpenAI, settings: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        said(ai, **settings)
    assert refused.value.param == param


@pytest.mark.parametrize(("path", "field"), [("/v1/audio/speech", "input"), ("/v1/tts/synthesize", "text")])
def test_an_engines_refusal_names_the_field_as_the_client_wrote_it(path: str, field: str) -> None:
    with serving(fake_pool(["tts"])) as running:
        engine: Any = engine_of(running.pool.gates["tts"])

        def refuse() -> None:
            raise InvalidRequest("the text holds nothing that can be spoken", param="text")

        engine.on_work = refuse
        answer = running.client.post(path, json={field: "hello"})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == field


def test_a_codec_that_is_not_there_is_told_of_by_its_field(
    monkeypatch: pytest.MonkeyPatch, client: httpx.Client
) -> None:
    """The server makes the first bytes before it sends the headers."""
    missing = Form("audio/ogg", partial(Encoded, Codec("ogg", "nonesuch")))
    monkeypatch.setattr(files, "FORMS", {"opus": missing})
    answer = client.post("/v1/audio/speech", json={"input": "hello", "response_format": "opus"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "response_format"


@pytest.mark.parametrize("computes", [True, False])
def test_an_encoder_that_computes_runs_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, client: httpx.Client, computes: bool
) -> None:
    """The encoder gets half a second of sound at a time."""
    sizes, loops, closed = [], set(), []

    class Recorder:
        def __init__(self, rate: int) -> None: ...

        def add(self, pcm: bytes) -> bytes:
            sizes.append(len(pcm))
            with contextlib.suppress(RuntimeError):
                loops.add(asyncio.get_running_loop())
            return pcm

        def end(self) -> bytes:
            return b"end"

        def close(self) -> None:
            closed.append(True)

    form = {"mp3": Form("audio/mpeg", Recorder, computes)}
    for module in (speech, files):
        monkeypatch.setattr(module, "FORMS", form)
    answer = client.post("/v1/audio/speech", json={"input": "one two three four five six seven"})
    assert answer.content.endswith(b"end")
    assert closed == [True]
    assert sizes == ([24_000, 9_600] if computes else [33_600])
    assert bool(loops) is not computes


def test_a_long_text_is_streamed_and_not_answered_whole(client: httpx.Client) -> None:
    body = {"input": "one two. " * 2_000, "stream_format": "sse", "response_format": "pcm"}
    with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.status_code == 200
    failure = client.post("/v1/audio/speech", json={"input": body["input"], "response_format": "wav"}).json()["error"]
    assert failure["param"] == "input"
    assert "18000 characters; the limit is 16384 for speech that is answered as a whole" in failure["message"]


def test_the_longest_text_is_a_setting() -> None:
    with serving(fake_pool(["tts"]), max_text_chars=10) as running, httpx.Client(base_url=running.url) as client:
        failure = client.post("/v1/audio/speech", json={"input": "one two three"}).json()["error"]
    assert "13 characters; the limit is 10" in failure["message"]
