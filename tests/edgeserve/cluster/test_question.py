"""The part of a request that decides its node, in the shapes of all dialects."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from support.cases import each

from edgeserve.cluster.affinity import Affinity
from edgeserve.cluster.question import Question, read_question

JSON = "application/json"
FIRST = {"role": "user", "content": "Who are you?"}
MORE = [FIRST, {"role": "assistant", "content": "A model."}, {"role": "user", "content": "Which one?"}]


def asked(path: str, **body: Any) -> Question:
    return read_question(path, media=JSON, body=json.dumps(body).encode())


@each(
    ("path", "job"),
    [
        ("/v1/chat/completions", "llm"),
        ("/v1/messages", "llm"),
        ("/api/generate", "llm"),
        ("/v1/responses", "llm"),
        ("/v1/audio/transcriptions", "asr"),
        ("/v1/transcribe/live", "asr"),
        ("/v1/realtime", "asr"),
        ("/v1/audio/speech", "tts"),
        ("/v1/tts/synthesize", "tts"),
        ("/api/embed", "embedding"),
        ("/v2/rerank", "rerank"),
        ("/v1/vision/analyze", "vision"),
    ],
)
def test_jobs_follow_from_the_path(path: str, job: str) -> None:
    assert read_question(path).jobs[0] == job


def test_the_model_is_read_from_body_query_and_form() -> None:
    assert asked("/v1/chat/completions", model="openai/small").names == ("openai/small", "small")
    assert asked("/api/chat", model="small:latest").names == ("small:latest", "small")
    assert read_question("/v1/realtime", b"model=ears&intent=transcription").names == ("ears",)
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nears\r\n--b\r\n'
    assert read_question("/v1/audio/transcriptions", media="multipart/form-data; boundary=b", body=form).names == (
        "ears",
    )


def test_a_conversation_is_known_again_in_each_dialect() -> None:
    for path, field in (("/v1/chat/completions", "messages"), ("/api/chat", "messages"), ("/v1/responses", "input")):
        memory = Affinity()
        memory.keep(asked(path, model="small", **{field: [FIRST]}).conversation, "box")
        assert memory.home(asked(path, model="small", **{field: MORE}).conversation) == "box"
        assert memory.home(asked(path, model="large", **{field: MORE}).conversation) == ""


def test_a_system_message_of_its_own_field_counts() -> None:
    one, other = (asked("/v1/messages", system=text, messages=[FIRST]).conversation for text in ("a", "b"))
    assert set(one).isdisjoint(other)


@each("body", [b"", b"{", b"[]", b'"text"', b'{"model": 3}', b'{"messages": {"a": 1}}', b"[" * 100_000, b"\xff\xfe"])
def test_a_request_that_cannot_be_read_goes_anywhere(body: bytes) -> None:
    assert read_question("/v1/chat/completions", media=JSON, body=body) == Question()


def test_a_name_that_is_far_too_long_is_no_name() -> None:
    assert asked("/v1/chat/completions", model="a" * 300).names == ()


@given(some.text(), some.binary(), some.text(max_size=40), some.binary())
def test_it_never_raises(path: str, query: bytes, media: str, body: bytes) -> None:
    for kind in (media, JSON, "multipart/form-data"):
        assert isinstance(read_question(path, query, kind, body), Question)
