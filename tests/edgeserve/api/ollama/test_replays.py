"""Requests of well-known clients, as their sources send them, and the parts of the answers that they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.replays import holds, steps


@pytest.mark.parametrize("step", steps(Path(__file__).parent / "replays"))
def test_a_request_is_answered_as_its_client_reads_it(client: httpx.Client, step: dict[str, Any]) -> None:
    body = json.dumps(step["body"]) if "body" in step else None
    answer = client.request(step["method"], step["path"], content=body)
    assert answer.status_code == step.get("status", 200), answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]  # one object a line, whole answers included
    assert set(step.get("keys", ())) <= set(lines[0])
    assert holds(lines[0], step.get("first", {})), lines[0]
    assert holds(lines[-1], step.get("last", {})), lines[-1]


def test_a_chosen_model_is_found_in_the_list(client: httpx.Client) -> None:
    """LangChain and Home Assistant look for the name, or for a name that begins with it and a colon."""
    names = [one["model"] for one in client.get("/api/tags").json()["models"]]
    for asked in ("fake-llm", "fake-llm:latest"):
        assert asked in names or any(name.startswith(f"{asked}:") for name in names)
