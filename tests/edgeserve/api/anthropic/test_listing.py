"""The list of models in Anthropic's shape: for clients that speak its dialect."""

from __future__ import annotations

import httpx

from edgeserve.api.anthropic import listing

VERSION = {"anthropic-version": "2023-06-01"}


def test_a_page_names_its_ends() -> None:
    found = listing.page(["a", "b"])
    assert ([one["id"] for one in found["data"]], found["first_id"], found["last_id"]) == (["a", "b"], "a", "b")
    assert found["has_more"] is False
    assert listing.page([]) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_the_header_chooses_the_shape(client: httpx.Client) -> None:
    openai, anthropic = client.get("/v1/models"), client.get("/v1/models?limit=20", headers=VERSION)
    names = [one["id"] for one in openai.json()["data"]]
    assert [one["id"] for one in anthropic.json()["data"]] == names
    assert anthropic.json()["data"][0] == {
        "type": "model",
        "id": names[0],
        "display_name": names[0],
        "created_at": "2025-01-01T00:00:00Z",
        "lifecycle": "active",
    }
    assert anthropic.headers["request-id"] == anthropic.headers["x-request-id"]
    assert "request-id" not in openai.headers


def test_one_model(client: httpx.Client) -> None:
    assert client.get("/v1/models/llm", headers=VERSION).json()["display_name"] == "fake-llm"
    assert client.get("/v1/models/llm").json()["object"] == "model"
