"""The renderer of reranking."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from edgeserve.api.rerank import answer
from edgeserve.api.rerank.answer import Ranking, RankList, relevance
from edgeserve.messages import RerankEvent


@given(some.floats(-1e30, 1e30), some.floats(-1e30, 1e30))
def test_relevance_lies_between_0_and_1_and_keeps_the_order(one: float, other: float) -> None:
    assert 0 <= relevance(one) <= 1
    assert (relevance(one) <= relevance(other)) or one > other
    assert relevance(one) + relevance(-one) == pytest.approx(1)


@given(some.lists(some.floats(-30, 30), min_size=1, max_size=40), some.integers(1, 50))
def test_the_best_come_first_and_each_once(logits: list[float], top: int) -> None:
    made = RankList(Ranking("m", (), top, logits=True))
    for logit in logits:
        assert made.feed(0, RerankEvent(logit, 1)) == b""
    results = json.loads(made.end())["results"]
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    assert len({one["index"] for one in results}) == len(results) == min(top, len(logits))
    assert all(math.isclose(one["relevance_score"], logits[one["index"]], rel_tol=1e-8) for one in results)


def test_a_search_unit_has_a_hundred_documents() -> None:
    made = RankList(Ranking("m", (), 1))
    for _ in range(101):
        made.feed(0, RerankEvent(0.0, 3))
    found = json.loads(made.end())
    assert found["meta"]["billed_units"] == {"search_units": 2}
    assert found["usage"]["total_tokens"] == 303
    assert "warnings" not in found["meta"]


def test_documents_are_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing 16 MB of documents in one call of C would let nobody else run meanwhile."""
    dumped: list[Any] = []
    monkeypatch.setattr(
        answer, "json", SimpleNamespace(dumps=lambda value: (dumped.append(value), json.dumps(value))[1])
    )
    made = RankList(Ranking("m", ["é"] * 5, 5))
    for number in range(5):
        made.feed(0, RerankEvent(float(number), 1))
    found = json.loads(made.end())
    assert [one.get("index") for one in dumped] == [4, 3, 2, 1, 0, None]
    assert found["results"][0]["document"] == {"text": "é"}
