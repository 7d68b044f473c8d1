"""The native routes of transcription and speech on fake engines."""

from __future__ import annotations

import struct

import httpx
import pytest
from support.answers import error
from support.server import fake_pool, serving
from support.speech import wav

TONE = wav([0.5] * 24_000)


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


def test_a_failing_engine_answers_500_and_is_tried_again() -> None:
    with serving(fake_pool(["asr"], fail_on="heat")) as running:
        for _ in range(2):
            answer = running.client.post("/v1/transcribe/file", files={"audio": TONE})
            assert error(answer, 500)["code"] == "engine_failure"
