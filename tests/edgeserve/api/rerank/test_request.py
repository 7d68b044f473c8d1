"""Requests of every dialect of reranking, over HTTP, on a fake engine that counts the query's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.cases import each
from support.server import fake_pool, serving

from edgeserve.api.rerank.request import MAX_DOCUMENTS, QUERY_CHARS

QUERY = "giant panda bear"
DOCUMENTS = ["hello", "the giant panda bear", "a bear"]
ONE, TWO = 0.731058579, 0.880797078
"""Sigmoids of 1 and 2."""


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(fake_pool(["llm", "rerank"], context=8)) as running:
        yield running.client


def ask(client: httpx.Client, path: str = "/v1/rerank", **fields: Any) -> Any:
    answer = client.post(path, json={"query": QUERY, "documents": DOCUMENTS, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("path", ["/rerank", "/reranking", "/v1/rerank", "/v1/reranking", "/v2/rerank"])
def test_every_path_means_the_same(client: httpx.Client, path: str) -> None:
    assert [one["index"] for one in ask(client, path)["results"]] == [1, 2, 0]


def test_one_answer_has_what_each_dialect_reads(client: httpx.Client) -> None:
    found = ask(client, model="fake-rerank")
    assert found["id"].startswith("rerank-")
    assert (found["object"], found["model"]) == ("list", "fake-rerank")
    best, second, last = found["results"]
    assert best == {"index": 1, "relevance_score": pytest.approx(TWO), "document": {"text": DOCUMENTS[1]}}
    assert (second["relevance_score"], last["relevance_score"]) == (0.5, pytest.approx(1 - ONE))
    assert found["usage"] == {"prompt_tokens": 3 * 3 + 7, "total_tokens": 3 * 3 + 7}
    assert found["meta"] == {
        "api_version": {"version": "2"},
        "billed_units": {"search_units": 1},
        "tokens": {"input_tokens": 3 * 3 + 7, "output_tokens": 0},
    }


def test_documents_may_be_objects_and_need_not_be_repeated(client: httpx.Client) -> None:
    documents = [{"text": one, "title": "t"} for one in DOCUMENTS]
    found = ask(client, documents=documents, return_documents=False, rank_fields=["text"])
    assert [list(one) for one in found["results"]] == [["index", "relevance_score"]] * 3


@each(("top", "count"), [(None, 3), (0, 3), (1, 1), (2, 2), (99, 3)])
def test_the_best_so_many(client: httpx.Client, top: int | None, count: int) -> None:
    assert [one["index"] for one in ask(client, top_n=top)["results"]] == [1, 2, 0][:count]


def test_documents_alike_keep_their_order(client: httpx.Client) -> None:
    assert [one["index"] for one in ask(client, documents=["x"] * 12)["results"]] == list(range(12))


@pytest.mark.parametrize("field", [{"use_activation": False}, {"raw_scores": True}])
def test_logits_on_request(client: httpx.Client, field: dict[str, bool]) -> None:
    assert [one["relevance_score"] for one in ask(client, **field)["results"]] == [2, 0, -1]


def test_the_shape_of_tei(client: httpx.Client) -> None:
    asked: dict[str, Any] = {"query": QUERY, "texts": DOCUMENTS[:2], "truncate": True}
    found = client.post("/rerank", json=asked).json()
    assert found == [{"index": 1, "score": pytest.approx(TWO)}, {"index": 0, "score": pytest.approx(1 - ONE)}]
    found = client.post("/rerank", json=asked | {"return_text": True, "raw_scores": True}).json()
    assert found[0] == {"index": 1, "score": 2, "text": DOCUMENTS[1]}


def test_long_documents_are_cut_and_the_answer_says_so(client: httpx.Client) -> None:
    found = ask(client, documents=["a b c", "a b c d e f", "x y z u v giant panda"])
    assert found["meta"]["warnings"] == ["2 of 3 documents were cut to what the model reads"]
    assert found["usage"]["total_tokens"] == 9 + 3 + 5 + 5
    found = ask(client, documents=["a b giant"], max_tokens_per_doc=2, use_activation=False)
    assert (found["results"][0]["relevance_score"], found["usage"]["total_tokens"]) == (-1, 5)
    found = ask(client, documents=["a b giant"], truncate_prompt_tokens=4)
    assert found["usage"]["total_tokens"] == 4
    assert ask(client, documents=["a b giant"], truncate_prompt_tokens=-1)["usage"]["total_tokens"] == 6


@each(
    ("fields", "param", "told"),
    [
        ({"query": ""}, "query", "is required"),
        ({"query": ["a"]}, "query", "must be a string"),
        ({"query": "x" * (QUERY_CHARS + 1)}, "query", "has 65537 characters; the limit is 65536"),
        ({"query": "a b c d e f g h"}, "query", "leaves no room"),
        ({"documents": None}, "documents", "documents is required"),
        ({"documents": []}, "documents", "at least one text, not an empty one"),
        ({"documents": "hello"}, "documents", "at least one text, not a string"),
        ({"documents": ["a", 5]}, "documents[1]", "must be a text"),
        ({"documents": [{"title": "t"}]}, "documents[0]", "must be a text"),
        ({"documents": ["a"] * (MAX_DOCUMENTS + 1)}, "documents", "has 1001 entries; the limit is 1000"),
        ({"texts": ["a"]}, "documents", "not both"),
        ({"top_n": -1}, "top_n", "must lie between 0"),
        ({"top_n": 1.5}, "top_n", "whole number"),
        ({"max_tokens_per_doc": 0}, "max_tokens_per_doc", "must lie between 1"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "must lie between -1"),
        ({"truncation_direction": "Left"}, "truncation_direction", "unless it is right or Right"),
        ({"rank_fields": ["title"]}, "rank_fields", "is not supported"),
        ({"truncate": False, "documents": ["a b c d e f"]}, "documents", "document 0 is 6 tokens long"),
    ],
)
def test_wrong_fields_are_named(client: httpx.Client, fields: dict[str, Any], param: str, told: str) -> None:
    answer = client.post("/v1/rerank", json={"query": QUERY, "documents": DOCUMENTS, **fields})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert told in error["message"]


def test_a_long_text_of_tei_is_an_error_that_names_texts(client: httpx.Client) -> None:
    answer = client.post("/rerank", json={"query": QUERY, "texts": ["a b c d e f"]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "texts")


def test_other_models_do_not_rerank(client: httpx.Client) -> None:
    answer = client.post("/v1/rerank", json={"model": "fake-llm", "query": "a", "documents": ["b"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert "served: fake-rerank" in answer.json()["error"]["message"]
    talk = {"model": "fake-rerank", "messages": [{"role": "user", "content": "Hi"}]}
    assert client.post("/v1/chat/completions", json=talk).status_code == 404


def test_a_device_without_a_model_says_what_to_add() -> None:
    with serving(fake_pool(["llm"])) as running:
        answer = running.client.post("/rerank", json={"query": "a", "documents": ["b"]})
        assert answer.status_code == 404
        assert '[rerank]\nmodel = "ms-marco-minilm-l6-v2"' in answer.json()["error"]["message"]
        assert "rerank" not in running.client.get("/v1/health").json()["engines"]


def test_the_job_is_reported_and_moved_like_any_other(client: httpx.Client) -> None:
    ask(client)
    assert client.get("/v1/health").json()["engines"]["rerank"] is True
    shown = {"name": "fake-rerank", "type": "rerank", "loaded": True, "rung": "hot", "default": True}
    assert shown in client.get("/v1/models").json()["models"]
    assert client.post("/memory/evict/rerank").status_code == 200
    assert client.get("/v1/health").json()["rungs"]["rerank"] == "cold"
