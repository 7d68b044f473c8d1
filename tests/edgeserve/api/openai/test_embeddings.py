"""Embeddings through the official client."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from support.cases import each
from support.gates import BATCHING_FAKES
from support.server import Running, fake_pool, serving, until

from edgeserve.api.openai import embeddings
from edgeserve.api.openai.embeddings import EmbeddingList
from edgeserve.engines.fake import chat
from edgeserve.messages import EmbeddingEvent
from edgeserve.residency.mailbox import Deliveries


@pytest.fixture(scope="module")
def ai() -> Iterator[OpenAI]:
    """A client of an engine that answers several requests at once, as the real engine does."""
    with (
        serving(fake_pool(["llm", "vision"], fakes=BATCHING_FAKES, context=4)) as running,
        OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("given", "tokens"),
    [("a b", [2]), (["a b", "c"], [2, 1]), ([5, 6, 7], [3]), ([[5], [6, 7]], [1, 2])],
)
def test_every_form_of_an_input(ai: OpenAI, given: object, tokens: list[int]) -> None:
    answer = ai.embeddings.create(model="fake-llm", input=given, encoding_format="float")  # type: ignore[arg-type]
    assert (answer.object, answer.model) == ("list", "fake-llm")
    assert [one.index for one in answer.data] == list(range(len(tokens)))
    assert all(math.hypot(*one.embedding) == pytest.approx(1.0) for one in answer.data)
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (sum(tokens), sum(tokens))


def test_the_same_in_every_way_of_asking(ai: OpenAI, running: Running) -> None:
    """The client itself asks for base64 and unpacks it."""
    numbers = ai.embeddings.create(model="llm", input="one two three", encoding_format="float").data[0].embedding
    packed = ai.embeddings.create(model="llm", input="one two three").data[0].embedding
    assert packed == pytest.approx(numbers, abs=1e-7)
    assert ai.embeddings.create(model="vision", input="one two three").data[0].embedding == packed
    body = {"input": ["one two three"], "encoding_format": "base64"}
    raw = httpx.post(f"{running.url}/v1/embeddings", json=body).json()["data"][0]["embedding"]
    assert list(struct.unpack("<8f", base64.b64decode(raw))) == pytest.approx(numbers, abs=1e-7)


def test_fields_of_other_servers_change_nothing(ai: OpenAI) -> None:
    """As Cohere's, NVIDIA's and Ollama's clients send them."""
    plain = ai.embeddings.create(model="llm", input="one two").data[0].embedding
    fields = {"input_type": "query", "truncate": "END", "options": {"num_ctx": 512}}
    answer = ai.embeddings.with_raw_response.create(model="llm", input="one two", extra_body=fields)
    assert "x-edgeserve-ignored" not in answer.headers
    assert answer.parse().data[0].embedding == plain


def test_dimensions_keep_the_beginning_at_length_one(ai: OpenAI) -> None:
    whole = ai.embeddings.create(model="llm", input="a b c d").data[0].embedding
    short = ai.embeddings.create(model="llm", input="a b c d", dimensions=6).data[0].embedding
    assert len(short) == 6
    length = math.hypot(*whole[:6])
    assert short == pytest.approx([one / length for one in whole[:6]], abs=1e-6)
    with pytest.raises(openai.BadRequestError, match="dimensions is 9; vectors of this model have 8"):
        ai.embeddings.create(model="llm", input="a", dimensions=9)


@each(
    ("settings", "told"),
    [
        ({"input": ""}, "input is required"),
        ({"input": []}, "input is required"),
        ({"input": ["a", ""]}, r"input\[1\] is required"),
        ({"input": ["a"] * 2049}, "input has 2049 entries; the limit is 2048"),
        ({"encoding_format": "int8"}, "encoding_format must be float or base64, not 'int8'"),
        ({"dimensions": 0}, "dimensions must lie between 1 and"),
        ({"input": "a b c d e"}, "an input is 5 tokens long; the context holds 4"),
    ],
)
def test_wrong_fields_are_named(ai: OpenAI, settings: dict[str, object], told: str) -> None:
    with pytest.raises(openai.BadRequestError, match=told) as caught:
        ai.embeddings.create(model="llm", input="a", extra_body=settings)
    assert caught.value.param is not None
    assert caught.value.param.split("[")[0] in settings


def test_an_engine_of_its_own_comes_first() -> None:
    with serving(fake_pool(["llm", "embedding"])) as running:
        health = running.client.get("/v1/health").json()
        assert health["engines"] == {"asr": False, "embedding": True, "llm": True, "tts": False, "vision": False}
        for model, name in ((None, "fake-embedding"), ("embedding", "fake-embedding"), ("fake-llm", "fake-llm")):
            asked = {"input": "a b"} | ({"model": model} if model else {})
            assert running.client.post("/v1/embeddings", json=asked).json()["model"] == name
        chat = {"model": "fake-embedding", "messages": [{"role": "user", "content": "Hi"}]}
        assert running.client.post("/v1/chat/completions", json=chat).status_code == 404
        types = {one["type"] for one in running.client.get("/v1/models").json()["models"]}
        assert types == {"llm", "embedding"}
        assert running.client.post("/memory/evict/embedding").status_code == 200
        assert running.client.get("/v1/health").json()["rungs"]["embedding"] == "cold"


@pytest.mark.slow
def test_a_long_list_is_written_vector_by_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the whole list in one call of C let nobody else run for a second."""
    dumped: list[Any] = []
    monkeypatch.setattr(
        embeddings, "json", SimpleNamespace(dumps=lambda value: (dumped.append(value), json.dumps(value))[1])
    )
    made = EmbeddingList("fake")
    vector = struct.pack("<768f", *(one / 7919 for one in range(768)))
    parts = [made.feed(0, EmbeddingEvent(vector, 2)) for _ in range(512)]
    whole = b"".join([*parts, made.end()])
    assert [one.get("index") for one in dumped[:512]] == list(range(512))
    assert [list(one) for one in dumped[512:]] == [["model", "usage"]]
    body = json.loads(whole)
    assert [one["index"] for one in body["data"]] == list(range(512))
    assert struct.pack("<768f", *body["data"][-1]["embedding"]) == vector
    assert (body["object"], body["model"], body["usage"]["prompt_tokens"]) == ("list", "fake", 1024)


@pytest.mark.parametrize(("path", "name"), [("/v1/embeddings", "data"), ("/api/embed", "embeddings")])
def test_a_list_that_takes_more_as_text_than_as_vectors_is_counted_as_text(
    monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    """JSON takes three times the bytes of the vectors: one client could hold more than its share."""
    monkeypatch.setattr(chat, "EmbeddingEvent", lambda vector, count: EmbeddingEvent(vector * 256, count))
    kept: list[int] = []
    keep = Deliveries.keep

    def noted(deliveries: Deliveries, size: int, client: str) -> None:
        keep(deliveries, size, client)
        kept.append(size)

    monkeypatch.setattr(Deliveries, "keep", noted)
    with serving(fake_pool(["embedding"])) as running:
        body = running.client.post(path, json={"model": "embedding", "input": ["a b", "c", "d e f"]}).content
        assert len(json.loads(body)[name]) == 3
        assert sum(kept) >= len(body) - 1000 > 3 * 4 * 2048
        until(lambda: running.pool.deliveries.held == 0)
