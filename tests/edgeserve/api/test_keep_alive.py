"""keep_alive: its syntax, and its effect on memory on every route that an engine answers."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest
from support.bodies import PNG, TALK
from support.cases import each
from support.refusals import names
from support.server import Running, fake_pool, serving, until

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.question import Question
from edgeserve.api.routes import ENTRIES
from edgeserve.api.schema import Form
from edgeserve.duration import LONGEST
from edgeserve.engine import Rung
from edgeserve.errors import InvalidRequest


def read(value: Any) -> float | None:
    return Question(Fields({"keep_alive": value}), Limits()).keep_alive


@each(
    ("value", "seconds"),
    [
        (None, None),
        (0, 0),
        (90, 90),
        (1.5, 1.5),
        ("90s", 90),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("300", 300),
        (" 5m ", 300),
        ("0", 0),
        (-1, math.inf),
        ("-1", math.inf),
        ("-5m", math.inf),
        (10**400, LONGEST),
        (-(10**400), math.inf),
        (float("inf"), LONGEST),
        ("999999h", LONGEST),
        ("1e3", 1000),
        ("0.8414369814900199", 0.8414369814900199),
        ("5e-324", 5e-324),
        ("-1.7976931348623157e+308", math.inf),
        ("9" * 400, LONGEST),
        ("1e999", LONGEST),
    ],
)
def test_the_syntax(value: Any, seconds: float | None) -> None:
    assert read(value) == seconds


@each(
    "value",
    ["", "5 m", "5x", "m", "--5", "soon", "5m!", "1e3s", "1e", "nan", "inf", "\u00a05", True, [5], {"s": 5}, "9" * 401],
)
def test_anything_else_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"keep_alive must be a number of seconds or a duration such as") as caught:
        read(value)
    assert caught.value.param == "keep_alive"
    assert len(caught.value.message) < 200


WAV = (
    b"RIFF\x24\x7d\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data"
    b"\x00\x7d\x00\x00" + bytes(32_000)
)
QUESTIONS: dict[str, tuple[str, dict[str, Any], dict[str, bytes]]] = {
    "/v1/chat": ("llm", {"prompt": "hello"}, {}),
    "/v1/chat/stream": ("llm", {"prompt": "hello"}, {}),
    "/v1/chat/soap": ("llm", {"transcript": "hello"}, {}),
    "/v1/chat/summarize": ("llm", {"text": "hello"}, {}),
    "/v1/vision/analyze": ("vision", {}, {"image": PNG}),
    "/v1/vision/ocr": ("vision", {}, {"image": PNG}),
    "/v1/transcribe/file": ("asr", {}, {"audio": WAV}),
    "/v1/tts/synthesize": ("tts", {"text": "hello"}, {}),
    "/v1/chat/completions": ("llm", {"messages": TALK}, {}),
    "/v1/completions": ("llm", {"prompt": "hello"}, {}),
    "/v1/embeddings": ("llm", {"input": "hello"}, {}),
    **dict.fromkeys(
        ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"),
        ("rerank", {"query": "hello", "documents": ["hello"]}, {}),
    ),
    **dict.fromkeys(("/v1/score", "/score"), ("rerank", {"text_1": "hello", "text_2": ["hello"]}, {})),
    "/v1/responses": ("llm", {"input": "hello"}, {}),
    "/v1/responses/input_tokens": ("llm", {"input": "hello"}, {}),
    "/infill": ("llm", {"input_prefix": "hello", "input_suffix": "bye"}, {}),
    "/completion": ("llm", {"prompt": "hello"}, {}),
    "/tokenize": ("llm", {"content": "hello"}, {}),
    "/detokenize": ("llm", {"tokens": [104]}, {}),
    "/apply-template": ("llm", {"messages": TALK}, {}),
    "/v1/chat/completions/input_tokens": ("llm", {"messages": TALK}, {}),
    "/v1/messages": ("llm", {"messages": TALK, "max_tokens": 8}, {}),
    "/v1/messages/count_tokens": ("llm", {"messages": TALK}, {}),
    "/api/chat": ("llm", {"model": "fake-llm", "messages": TALK, "stream": False}, {}),
    "/api/generate": ("llm", {"model": "fake-llm", "prompt": "hello", "stream": False}, {}),
    "/api/embed": ("llm", {"model": "fake-llm", "input": "hello"}, {}),
    "/api/embeddings": ("llm", {"model": "fake-llm", "prompt": "hello"}, {}),
    "/v1/audio/transcriptions": ("asr", {}, {"file": WAV}),
    "/v1/audio/translations": ("asr", {}, {"file": WAV}),
    "/v1/audio/speech": ("tts", {"input": "hello"}, {}),
}


def ask(client: httpx.Client, path: str, value: Any) -> httpx.Response:
    _, body, files = QUESTIONS[path]
    given = body if value is None else body | {"keep_alive": value}
    return client.post(path, data=given, files=files) if files else client.post(path, json=given)


def test_every_route_of_an_engine_is_here_and_described(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    live = "/v1/transcribe/stream"
    answered = {one.path: one.body for one in ENTRIES if one.body and issubclass(one.body, Question)}
    assert set(answered) == {*QUESTIONS, live}
    assert all("keep_alive" in schemas[body.__name__]["properties"] for body in answered.values())
    assert {path for path, body in answered.items() if issubclass(body, Form)} == {
        path for path, question in QUESTIONS.items() if question[2]
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", QUESTIONS)
def test_with_zero_the_memory_goes_with_the_answer(running: Running, path: str) -> None:
    job: Any = QUESTIONS[path][0]
    gate = running.pool.gates[job]
    assert ask(running.client, path, None).status_code == 200
    assert gate.rung is Rung.HOT
    assert ask(running.client, path, 0).status_code == 200
    lowest = Rung.COLD if job in ("asr", "tts", "rerank") else Rung.WARM
    until(lambda: gate.rung is lowest)
    until(lambda: bool(last := running.client.get("/memory/evictions").json()) and last[-1]["model_type"] == job)
    assert running.client.get("/memory/evictions").json()[-1]["reason"] == "keep_alive"


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_bad_value_is_answered_400(client: httpx.Client, path: str) -> None:
    answer = ask(client, path, "a while")
    assert answer.status_code == 400
    assert names(answer, "keep_alive")


def test_a_time_of_its_own_runs_out_between_two_rounds_of_the_monitor() -> None:
    with serving(fake_pool(["tts"])) as running:
        gate = running.pool.gates["tts"]
        assert ask(running.client, "/v1/tts/synthesize", "20ms").status_code == 200
        until(lambda: gate.rung is Rung.COLD)
