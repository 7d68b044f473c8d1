"""The native routes on fake engines: shapes, errors, and that the server goes on after each."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import httpx
import pytest
from benchmarks.mmproj import picture
from support.gates import engine_of
from support.server import fake_pool, serving
from support.speech import wav

TONE = wav([0.5] * 24_000)


def events(answer: httpx.Response) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body = answer.json()["error"]
    assert set(body) == {"message", "type", "code", "param"}
    assert answer.headers["x-request-id"]
    return dict(body)


def test_chat_answers_text(client: httpx.Client) -> None:
    assert client.post("/v1/chat", json={"prompt": "hello there"}).json() == {"text": "hello there"}


def test_chat_takes_messages_and_max_length(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "one two three"}], "max_length": 2}
    assert client.post("/v1/chat", json=body).json() == {"text": "one two"}


def test_chat_streams_tokens_then_done(client: httpx.Client) -> None:
    answer = client.post("/v1/chat/stream", json={"prompt": "a b"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert events(answer) == [{"token": "a"}, {"token": " b"}, {"done": True, "text": "a b"}]


def test_a_stream_that_fails_at_once_keeps_its_status() -> None:
    with serving(fake_pool(["llm"], context=2)) as running:
        answer = running.client.post("/v1/chat/stream", json={"prompt": "one two three"})
        assert error(answer, 400)["code"] == "context_length_exceeded"


def test_a_stream_that_fails_later_says_so_in_band() -> None:
    with serving(fake_pool(["llm"])) as running:
        engine: Any = engine_of(running.pool.gates["llm"])
        seen = 0

        def explode() -> None:
            nonlocal seen
            seen += 1
            if seen > 4:
                raise ZeroDivisionError

        engine._work = explode
        told = events(running.client.post("/v1/chat/stream", json={"prompt": "a b c d e f"}))
        assert told[0] == {"token": "a"}
        assert told[-1]["error"]["code"] == "engine_failure"
        del engine._work
        assert running.client.post("/v1/chat", json={"prompt": "on"}).json() == {"text": "on"}


@pytest.mark.parametrize(("path", "name"), [("/v1/chat/soap", "transcript"), ("/v1/chat/summarize", "text")])
def test_instructed_chat(client: httpx.Client, path: str, name: str) -> None:
    assert client.post(path, json={name: "it hurts"}).json() == {"text": "it hurts"}
    assert error(client.post(path, json={}), 400)["param"] == name


@pytest.mark.parametrize("path", ["/v1/vision/analyze", "/v1/vision/ocr"])
def test_vision_takes_an_image_and_a_prompt(client: httpx.Client, path: str) -> None:
    image = picture("red")
    answer = client.post(path, files={"image": ("a.png", image)}, data={"prompt": "what?"})
    assert answer.json() == {"text": f"1 images of {len(image)} bytes: what?"}
    assert client.post(path, files={"image": image}).status_code == 200


def test_transcribe_answers_text_duration_and_segments(client: httpx.Client) -> None:
    answer = client.post("/v1/transcribe/file", files={"audio": ("a.wav", TONE)})
    assert answer.json() == {
        "text": "1 2",
        "duration": 1.5,
        "segments": [{"start": 0.0, "end": 1.0, "text": "1"}, {"start": 1.0, "end": 1.5, "text": "2"}],
    }


def test_synthesize_answers_wav(client: httpx.Client) -> None:
    answer = client.post("/v1/tts/synthesize", json={"text": "good morning.", "voice": "hum", "speed": 2.0})
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.content[:4] == b"RIFF"
    assert struct.unpack_from("<I", answer.content, 40)[0] == len(answer.content) - 44 == 2 * 2400


def test_health_models_and_root(client: httpx.Client) -> None:
    health = client.get("/v1/health").json()
    assert health["status"] == "ok"
    assert health["engines"] == {"asr": True, "llm": True, "tts": True, "vision": True}
    assert health["system"]["memory_total_bytes"] > 0
    models = client.get("/v1/models").json()
    assert models["object"] == "list"
    assert {one["type"] for one in models["models"]} == {"llm", "vision", "asr", "tts"}
    assert {one["id"] for one in models["data"]} >= {"fake-llm", "fake-tts"}
    assert client.get("/").json()["openapi"] == "/openapi.json"


@pytest.mark.parametrize(
    ("path", "body", "param", "told"),
    [
        ("/v1/chat", {"prompt": ""}, "prompt", "must not be empty"),
        ("/v1/chat", {"prompt": 3}, "prompt", "must be a string, not the number 3"),
        ("/v1/chat", {"prompt": "x", "max_token": 3}, "max_token", "not a known field"),
        ("/v1/chat", {"prompt": "x", "max_length": 0}, "max_length", "must lie between 1"),
        ("/v1/chat", {"prompt": "x", "max_length": 1.5}, "max_length", "whole number"),
        ("/v1/chat", {"prompt": "x", "max_length": True}, "max_length", "must be a number"),
        ("/v1/chat", {"prompt": "x", "messages": [{"role": "user", "content": "y"}]}, "prompt", "beside messages"),
        ("/v1/chat", {"messages": []}, "messages", "at least one"),
        ("/v1/chat", {"messages": [{"role": "robot", "content": "y"}]}, "messages[0].role", "must be one of"),
        ("/v1/tts/synthesize", {"text": "hi", "speed": 9}, "speed", "between 0.25 and 4"),
        ("/v1/tts/synthesize", {"text": "hi.", "voice": "bass"}, "voice", "voices: tone, hum"),
        ("/v1/tts/synthesize", {"text": "x" * 20_000}, "text", "20000 characters; the limit is 16384"),
    ],
)
def test_a_wrong_field_is_named(client: httpx.Client, path: str, body: object, param: str, told: str) -> None:
    failure = error(client.post(path, json=body), 400)
    assert failure["param"] == param
    assert told in failure["message"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "must be a JSON object, not a list"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"prompt": NaN}', "NaN is not a JSON number"),
        (b'{"prompt":' + b"[" * 200 + b"]" * 200 + b"}", "levels deep"),
        (b'{"prompt":' + b"[" * 100_000, "levels deep"),
        (b"", "not valid JSON"),
        (
            b'{"prompt": "a", "max_length": %s}' % (b"9" * 400),
            "must lie between 1 and 1e+06, not 999999999999999999999…",
        ),
        (b'{"prompt": "a", "max_length": %s}' % (b"9" * 5000), "a number that is too long"),
        (b'{"prompt": "a", "max_length": 1e400}', "must lie between 1 and 1e+06, not inf"),
        (rb'{"prompt": "\ud83d"}', r"\ud83d alone, which is half of a character"),
        (rb'{"\uDE00": 1}', r"\ude00 alone"),
    ],
)
def test_a_broken_body_is_refused(client: httpx.Client, body: bytes, told: str) -> None:
    assert told in error(client.post("/v1/chat", content=body), 400)["message"]


def test_a_body_beyond_the_limit_is_refused_declared_or_not() -> None:
    with serving(fake_pool(["llm", "asr"]), max_body_mb=1) as running:
        large = b"x" * (2 << 20)
        assert "limit is 1 MB" in error(running.client.post("/v1/chat", content=large), 413)["message"]
        chunks = (b"x" * 65536 for _ in range(64))
        assert error(running.client.post("/v1/chat", content=chunks), 413)["code"] == "too_large"
        upload = running.client.post("/v1/transcribe/file", files={"audio": large})
        assert error(upload, 413)["code"] == "too_large"
        assert running.client.post("/v1/chat", json={"prompt": "on"}).status_code == 200


@pytest.mark.parametrize(
    ("data", "status", "told"),
    [
        (b"", 415, "is empty"),
        (b"these are words", 415, "is no audio"),
        (b"RIFF\0\0\0\0WAVE", 415, "12 bytes that begin with"),
        (TONE[:36], 415, "is no audio, or broken or cut off"),
        (TONE[:-40_000], 400, "was cut off: it says that it lasts 1.5 s, but holds 0.2 s"),
    ],
)
def test_audio_that_is_none(client: httpx.Client, data: bytes, status: int, told: str) -> None:
    failure = error(client.post("/v1/transcribe/file", files={"audio": ("a.wav", data)}), status)
    assert told in failure["message"]
    assert failure["param"] == "audio"


def test_no_audio_at_all(client: httpx.Client) -> None:
    assert error(client.post("/v1/transcribe/file", data={"x": "y"}, files={"b": b"c"}), 400)["param"] == "audio"
    assert "multipart" in error(client.post("/v1/transcribe/file", json={}), 400)["message"]


def test_an_image_of_a_hundred_million_pixels_is_refused_unread(client: httpx.Client) -> None:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII5B", 13, b"IHDR", 10_000, 10_000, 8, 2, 0, 0, 0)
    failure = error(client.post("/v1/vision/analyze", files={"image": head}), 413)
    assert "10000×10000, 100 million pixels; the limit is 20 million" in failure["message"]


def test_words_sent_as_an_image(client: httpx.Client) -> None:
    assert error(client.post("/v1/vision/analyze", files={"image": b"words"}), 415)["param"] == "image"


def test_a_conversation_with_an_image_goes_to_the_vision_engine(client: httpx.Client) -> None:
    png = picture("red")
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what?"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    assert client.post("/v1/chat", json=body).json() == {"text": f"1 images of {len(png)} bytes: what?"}
    with serving(fake_pool(["llm"])) as running:
        assert error(running.client.post("/v1/chat", json=body), 503)["code"] == "engine_not_configured"


def test_a_vision_engine_alone_serves_text_too() -> None:
    with serving(fake_pool(["vision"])) as running:
        assert running.client.post("/v1/chat", json={"prompt": "hi"}).json() == {"text": "hi"}


def test_a_wrong_image_is_named_with_its_place(client: httpx.Client) -> None:
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]
    answer = client.post("/v1/chat", json={"messages": [{"role": "user", "content": parts}]})
    assert error(answer, 400)["param"] == "messages[0].content[1].image_url"


def test_engines_that_are_not_configured_say_how_to_add_them() -> None:
    with serving(fake_pool(["llm"])) as running:
        answer = running.client.post("/v1/tts/synthesize", json={"text": "hi"})
        failure = error(answer, 503)
        assert failure["code"] == "engine_not_configured"
        assert '[tts]\nmodel = "hibari"' in failure["message"]


def test_unknown_routes_and_methods_have_the_same_shape(client: httpx.Client) -> None:
    assert error(client.get("/v2/chat"), 404)["code"] == "not_found"
    answer = client.get("/v1/chat")
    assert error(answer, 405)["message"] == "/v1/chat does not take GET"
    assert answer.headers["allow"] == "POST"


def test_request_ids_are_taken_over_or_made(client: httpx.Client) -> None:
    assert client.get("/v1/health", headers={"X-Request-Id": "mine-7"}).headers["x-request-id"] == "mine-7"
    made = client.get("/v1/health", headers={"X-Request-Id": "not fit\tfor a log"}).headers["x-request-id"]
    assert made.startswith("req_")


def test_a_key_is_asked_for_everywhere_but_the_health_check() -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        client = running.client
        assert client.get("/v1/health").status_code == 200
        answer = client.post("/v1/chat", json={"prompt": "hi"})
        assert error(answer, 401)["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"
        wrong = {"Authorization": "Bearer open"}
        assert client.post("/v1/chat", json={"prompt": "hi"}, headers=wrong).status_code == 401
        assert client.post("/v1/chat", json={"prompt": "hi"}, headers={"Authorization": "sesame"}).status_code == 401
        for right in ("Bearer sesame", "bearer sesame"):
            answer = client.post("/v1/chat", json={"prompt": "hi"}, headers={"Authorization": right})
            assert answer.json() == {"text": "hi"}


@pytest.mark.unforeseen
def test_what_nobody_foresaw_is_answered_logged_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    with serving(fake_pool(["llm"])) as running:

        def broken() -> int:
            raise ZeroDivisionError("secret inside")

        running.app.state.memory_total = broken
        answer = running.client.get("/v1/health", headers={"X-Request-Id": "mine-8"})
        failure = error(answer, 500)
        assert answer.headers["x-request-id"] == "mine-8"
        assert "secret" not in failure["message"]
        assert "ZeroDivisionError: secret inside" in caplog.text
        assert running.client.post("/v1/chat", json={"prompt": "on"}).json() == {"text": "on"}


def test_a_failing_engine_answers_500_and_is_tried_again() -> None:
    with serving(fake_pool(["asr"], fail_on="heat")) as running:
        for _ in range(2):
            answer = running.client.post("/v1/transcribe/file", files={"audio": TONE})
            assert error(answer, 500)["code"] == "engine_failure"
