"""Requests of Codex and of the Agents SDK, as their sources send them, and the events that they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.replays import holds, steps


@pytest.mark.parametrize("step", steps(Path(__file__).parent / "replays"))
def test_a_request_is_answered_as_its_client_reads_it(client: httpx.Client, step: dict[str, Any]) -> None:
    answer = client.post("/v1/responses", json=step["body"])
    assert answer.status_code == 200, answer.text
    assert "x-edgeserve-ignored" not in answer.headers
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    kinds = [one["type"] for one in events]
    assert set(step["kinds"]) <= set(kinds)
    assert kinds[-1] == "response.completed"
    assert holds(events[-1], step["last"]), events[-1]
    assert {"input_tokens", "output_tokens", "total_tokens"} <= set(events[-1]["response"]["usage"])
