"""Files of sound in both dialects: the server hears every form, and refuses other files with their field."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

import httpx
import numpy
import pytest
from support import bombs
from support.gates import HeldAnswer
from support.raw import dialled
from support.server import fake_pool, serving, until
from support.sounds import FORMS, Form, encoded, melody

from edgeserve.api.native import sound
from edgeserve.api.openai import audio
from edgeserve.api.sound.recording import PROMPT_CHARS
from edgeserve.audio.decode import RAISE
from edgeserve.audio.files import SoundFilesHere
from edgeserve.media.leash import Leash
from edgeserve.messages import TranscribeRequest
from edgeserve.sound import Audio

ROUTES = [("/v1/transcribe/file", "audio"), ("/v1/audio/transcriptions", "file")]


def made(name: str, seconds: float = 2.0) -> bytes:
    return encoded(melody(seconds, FORMS[name].rate), FORMS[name])


def failure(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status
    return answer.json()["error"]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "field"), ROUTES)
@pytest.mark.parametrize("name", ["wav", "mp3", "m4a", "flac", "ogg", "opus", "webm"])
def test_every_form_is_heard(client: httpx.Client, path: str, field: str, name: str) -> None:
    answer = client.post(path, files={field: ("said", made(name))})
    assert answer.status_code == 200
    assert answer.json()["text"].startswith("1 2")


@pytest.mark.slow
@pytest.mark.parametrize(("path", "field"), ROUTES)
@pytest.mark.parametrize("size", [0, 1, PROMPT_CHARS, PROMPT_CHARS + 1, 1_000_000])
def test_an_engine_gets_the_end_of_a_prompt_that_it_can_tokenise_in_time(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str, field: str, size: int
) -> None:
    asked: list[TranscribeRequest] = []

    def made_ready(*values: Any, **named: Any) -> TranscribeRequest:
        asked.append(TranscribeRequest(*values, **named))
        return asked[-1]

    for module in (sound, audio):
        monkeypatch.setattr(module, "TranscribeRequest", made_ready)
    prompt = ("words " * (size // 6 + 1))[:size]
    answer = client.post(path, files={field: ("said", made("wav"))}, data={"prompt": prompt})
    assert answer.status_code == 200
    assert (asked[0].prompt or "") == (prompt[-PROMPT_CHARS:] if size else "")


def test_silence_has_an_empty_transcript(client: httpx.Client) -> None:
    silence = encoded(numpy.zeros(88_200, numpy.float32), FORMS["flac"])
    answer = client.post("/v1/transcribe/file", files={"audio": ("said", silence)})
    assert answer.json() == {"text": "", "duration": 2.0, "segments": []}


@pytest.mark.parametrize(("path", "field"), ROUTES)
def test_files_that_hold_no_sound_are_refused(client: httpx.Client, path: str, field: str) -> None:
    whole = made("mp3", 12.0)
    damaged = whole[:40_000] + numpy.random.default_rng(1).bytes(3000) + whole[43_000:]
    flac = bytearray(made("flac", 12.0))
    flac[len(flac) // 2] ^= 1
    for data, status, told in [
        (bytes(flac), 400, "is damaged at 5."),
        (b"#EXTM3U\nhttp://127.0.0.1/\n", 415, "is no audio"),
        (made("flac")[:20_000], 400, "was cut off: it says that it lasts 2.0 s"),
        (encoded(melody(0), FORMS["flac"]), 400, "holds no samples"),
        (damaged, 400, "is damaged at"),
    ]:
        error = failure(client.post(path, files={field: ("said", data)}), status)
        assert told in error["message"]
        assert error["param"] == field
    assert client.post(path, files={field: ("said", whole)}).status_code == 200


@pytest.mark.parametrize(("path", "field"), ROUTES)
@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ((None, None), None, "{} holds 2 files; send one at a time"),
        ((None, None, None), None, "{} holds 3 files; send one at a time"),
        ((None, "sound"), "sound", "'sound' is a file that is not asked for; send one, as {}"),
        (("sound",), None, "{} is required: a file in a multipart form"),
        ((), None, "{} is required: a file in a multipart form"),
    ],
)
def test_one_file_in_its_field(
    client: httpx.Client, path: str, field: str, fields: tuple[str | None, ...], param: str | None, told: str
) -> None:
    files: Any = [(name or field, ("said", made("wav"))) for name in fields]
    error = failure(client.post(path, files=[*files, ("language", (None, "en"))]), 400)
    assert error["message"] == told.format(field)
    assert error["param"] == (param or field)


class Waiting(SoundFilesHere):
    """Checks that last until their leash is cut."""

    def __init__(self) -> None:
        self.begun, self.cut = threading.Event(), threading.Event()

    def check(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> Audio:
        leash.hold(self.cut.set)
        self.begun.set()
        assert self.cut.wait(30)
        leash.check()
        raise AssertionError("the leash is not cut")


def test_a_client_that_leaves_ends_the_check_of_its_file() -> None:
    with serving(fake_pool(["asr"])) as running:
        running.app.state.sound_files = files = Waiting()
        request = httpx.Request("POST", running.url, files={"audio": ("said", made("wav"))})
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        with dialled(running) as client:
            client.sendall(f"POST /v1/transcribe/file HTTP/1.1\r\n{head}\r\n".encode() + request.read())
            assert files.begun.wait(10)
            assert not files.cut.is_set()
        assert files.cut.wait(10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fragment", "compressed movie", "matroska"])
def test_a_bomb_costs_its_own_request_alone(name: str) -> None:
    with serving(fake_pool(["asr"]), isolation="process") as running:
        for path, field in ROUTES:
            error = failure(running.client.post(path, files={field: ("said", bombs.SOUNDS[name]())}), 415)
            assert error["param"] == field
        answer = running.client.post("/v1/transcribe/file", files={"audio": ("said", made("wav"))})
        assert answer.json()["text"] == "1 2"


@pytest.mark.slow
def test_a_small_file_of_hours_meets_the_limit() -> None:
    bomb = encoded(numpy.zeros(8000 * 600, numpy.float32), Form("flac", "flac", 8000))
    with serving(fake_pool(["asr"]), max_audio_seconds=599) as running:
        error = failure(running.client.post("/v1/transcribe/file", files={"audio": ("said", bomb)}), 413)
        assert error["message"] == "audio lasts 600 s; the limit is 599 s: " + RAISE


@pytest.mark.slow
def test_a_client_that_leaves_ends_a_long_transcription() -> None:
    """The first segment comes while the second is held up. Then the client leaves: no third one begins."""
    long = encoded(numpy.full(8000 * 600, 0.5, numpy.float32), Form("flac", "flac", 8000))
    with serving(fake_pool(["asr"])) as running, contextlib.ExitStack() as stack:
        short = {"audio": ("said", made("wav", 1.0))}
        assert running.client.post("/v1/transcribe/file", files=short).json()["text"] == "1"
        gate = running.pool.gates["asr"]
        held = stack.enter_context(HeldAnswer(gate))
        asked = {"data": {"model": "fake-asr", "stream": "true"}, "files": {"file": ("said", long)}}
        with running.client.stream("POST", "/v1/audio/transcriptions", **asked) as answer:
            lines = answer.iter_lines()  # kept: closing it would close the connection
            assert json.loads(next(lines).removeprefix("data: "))["delta"] == "1"
            until(lambda: held.begun == 2)
            assert gate.leases == 1
        until(lambda: all(work.cancel.is_set() for work in gate.work))
        held.go.set()
        assert running.client.post("/v1/transcribe/file", files=short).json()["text"] == "1"
        assert held.begun == 3, "two of the long one, one of the short one"
