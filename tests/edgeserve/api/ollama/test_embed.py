"""POST /api/embed and /api/embeddings on fake engines."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest
from support.server import fake_pool, serving


def embed(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/api/embed", json={"model": "llm", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_one_text_or_several(client: httpx.Client) -> None:
    one, two = embed(client, input="one two"), embed(client, input=["one two", "three"])
    assert one["embeddings"] == two["embeddings"][:1]
    assert len(two["embeddings"]) == 2
    assert (two["model"], two["prompt_eval_count"]) == ("llm", 3)
    assert two["total_duration"] > 0
    assert math.hypot(*one["embeddings"][0]) == pytest.approx(1)


def test_dimensions_cut_and_bring_to_length_1(client: httpx.Client) -> None:
    (vector,) = embed(client, input="one two three four five", dimensions=4)["embeddings"]
    assert len(vector) == 4
    assert math.hypot(*vector) == pytest.approx(1)
    answer = client.post("/api/embed", json={"model": "llm", "input": "a", "dimensions": 4096})
    assert (answer.status_code, "vectors of this model have 8" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("given", ["", [], None])
def test_no_text_has_no_vector(client: httpx.Client, given: Any) -> None:
    assert embed(client, input=given)["embeddings"] == []


def test_a_long_text_is_cut_or_refused_as_asked() -> None:
    with serving(fake_pool(["llm"], context=3)) as running:
        assert embed(running.client, input="a b c d e")["prompt_eval_count"] == 3
        refused = running.client.post("/api/embed", json={"model": "llm", "input": "a b c d e", "truncate": False})
        assert refused.status_code == 400
        assert refused.json()["error"].startswith("the input length exceeds the context length")


def test_the_older_form(client: httpx.Client) -> None:
    found = client.post("/api/embeddings", json={"model": "llm", "prompt": "one two"}).json()
    assert found == {"embedding": embed(client, input="one two")["embeddings"][0]}
    assert client.post("/api/embeddings", json={"model": "llm"}).json() == {"embedding": []}


def test_a_missing_model(client: httpx.Client) -> None:
    answer = client.post("/api/embed", json={"model": "gone", "input": "a"})
    assert answer.status_code == 404
    assert "not found, try pulling it first" in answer.json()["error"]
