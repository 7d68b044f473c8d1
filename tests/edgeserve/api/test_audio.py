"""Files of sound as they come to both dialects: every form is heard, and what cannot be is refused with its field."""

from __future__ import annotations

from typing import Any

import httpx
import numpy
import pytest
from support.server import fake_pool, serving
from support.sounds import FORMS, Form, encoded, melody

from edgeserve.api.limits import Limits

ROUTES = [("/v1/transcribe/file", "audio"), ("/v1/audio/transcriptions", "file")]


def made(name: str, seconds: float = 2.0) -> bytes:
    return encoded(melody(seconds, FORMS[name].rate), FORMS[name])


def failure(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status
    return answer.json()["error"]


@pytest.mark.parametrize(("path", "field"), ROUTES)
@pytest.mark.parametrize("name", ["wav", "mp3", "m4a", "flac", "ogg", "opus", "webm"])
def test_every_form_is_heard(client: httpx.Client, path: str, field: str, name: str) -> None:
    answer = client.post(path, files={field: ("said", made(name))})
    assert answer.status_code == 200
    assert answer.json()["text"].startswith("1 2")


def test_silence_has_an_empty_transcript(client: httpx.Client) -> None:
    silence = encoded(numpy.zeros(88_200, numpy.float32), FORMS["flac"])
    answer = client.post("/v1/transcribe/file", files={"audio": ("said", silence)})
    assert answer.json() == {"text": "", "duration": 2.0, "segments": []}


@pytest.mark.parametrize(("path", "field"), ROUTES)
def test_what_cannot_be_heard(client: httpx.Client, path: str, field: str) -> None:
    whole = made("mp3", 12.0)
    damaged = whole[:40_000] + numpy.random.default_rng(1).bytes(3000) + whole[43_000:]
    for data, status, told in [
        (b"#EXTM3U\nhttp://127.0.0.1/\n", 415, "is no audio"),
        (made("flac")[:20_000], 400, "was cut off: it says that it lasts 2.0 s"),
        (encoded(melody(0), FORMS["flac"]), 400, "holds no samples"),
        (damaged, 400, "is damaged at"),
    ]:
        error = failure(client.post(path, files={field: ("said", data)}), status)
        assert told in error["message"]
        assert error["param"] == field
    assert client.post(path, files={field: ("said", whole)}).status_code == 200


def test_a_small_file_of_hours_meets_the_limit() -> None:
    bomb = encoded(numpy.zeros(8000 * 600, numpy.float32), Form("flac", "flac", 8000))
    with serving(fake_pool(["asr"])) as running:
        running.app.state.limits = Limits(max_audio_seconds=599)
        error = failure(running.client.post("/v1/transcribe/file", files={"audio": ("said", bomb)}), 413)
        assert error["message"] == "audio lasts 600 s; the limit is 599 s: send it in parts"
