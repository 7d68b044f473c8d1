"""vLLM's scores, over HTTP, on a fake engine that counts the words that two texts share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.cases import each
from support.server import fake_pool, serving

from edgeserve.api.rerank.score import MAX_QUERIES, ScoreList
from edgeserve.messages import RerankEvent


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(fake_pool(["rerank"], context=8)) as running:
        yield running.client


def scores(client: httpx.Client, first: Any, second: Any, path: str = "/v1/score") -> list[float]:
    asked = {"text_1": first, "text_2": second, "use_activation": False}
    answer = client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [one["index"] for one in found["data"]] == list(range(len(found["data"])))
    return [one["score"] for one in found["data"]]


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a b", "a b", [1]),
        (["a b"], ["c", "b", "b a"], [-1, 0, 1]),
        (["a", "b", "c d"], ["a", "a", "c d"], [0, -1, 1]),
    ],
)
def test_one_text_by_many_or_pairs(client: httpx.Client, first: Any, second: Any, expected: Any, path: str) -> None:
    assert scores(client, first, second, path) == expected


def test_the_shape_of_vllm(client: httpx.Client) -> None:
    found = client.post("/score", json={"text_1": "a", "text_2": ["b", "a"], "model": "fake-rerank"}).json()
    assert found["id"].startswith("score-")
    assert (found["object"], found["model"]) == ("list", "fake-rerank")
    assert found["data"][1] == {"index": 1, "object": "score", "score": 0.5}
    assert found["usage"] == {"prompt_tokens": 4, "total_tokens": 4, "completion_tokens": 0}


def test_answers_that_overtake_each_other_keep_their_places() -> None:
    made = ScoreList("m", logits=True)
    for number in (2, 0, 1):
        made.feed(number, RerankEvent(float(number), 1))
    assert b'"score": 0.0}, {"index": 1, "object": "score", "score": 1.0}' in made.end()


@each(
    ("fields", "param", "told"),
    [
        ({"text_1": None}, "text_1", "is required"),
        ({"text_1": " "}, "text_1", "is required"),
        ({"text_2": []}, "text_2", "is required"),
        ({"text_1": ["a", "b"]}, "text_2", "has 1 entries; text_1 has 2"),
        ({"text_1": ["a"] * (MAX_QUERIES + 1)}, "text_1", "has 65 entries; the limit is 64"),
        ({"text_1": "a b c d e f g h"}, "text_1", "leaves no room"),
        ({"text_1": {"content": []}}, "text_1", "must be a string or a list of strings"),
    ],
)
def test_wrong_fields_are_named(client: httpx.Client, fields: dict[str, Any], param: str, told: str) -> None:
    answer = client.post("/v1/score", json={"text_1": "a", "text_2": "b"} | fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert told in answer.json()["error"]["message"]
