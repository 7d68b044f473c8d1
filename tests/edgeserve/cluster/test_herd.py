"""Boxes as nodes of ollama-herd, which speaks Ollama's dialect to them. Runs where the command ``herd`` is there."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.cluster_boxes import nodes
from support.asked import CHAT, says
from support.herd import herd
from support.server import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.boxes("ollama-herd"),
]
MODEL = "fake-llm:latest"


def chat(client: httpx.Client, url: str, text: str) -> str:
    """Through Ollama's dialect, as a stream."""
    answer = client.post(f"{url}/api/chat", json={"model": MODEL, **says(text)})
    lines = [json.loads(line) for line in answer.raise_for_status().text.splitlines() if line]
    assert lines[-1]["done"] is True
    return "".join(one["message"]["content"] for one in lines)


def completion(client: httpx.Client, url: str, text: str) -> str:
    """Through OpenAI's dialect."""
    answer = client.post(url + CHAT, json={"model": MODEL, **says(text)}).raise_for_status()
    return str(answer.json()["choices"][0]["message"]["content"])


def in_memory(client: httpx.Client, url: str) -> list[str]:
    return [one["model"] for one in client.get(f"{url}/api/ps").raise_for_status().json()["models"]]


def homes(client: httpx.Client, url: str) -> set[str]:
    """Nodes that have the model in memory, as the router sees them."""
    found: list[dict[str, Any]] = client.get(f"{url}/fleet/status").raise_for_status().json()["nodes"]
    return {
        one["node_id"]
        for one in found
        if one["status"] == "online" and any(model["name"] == MODEL for model in one["ollama"]["models_loaded"])
    }


def test_chats_go_where_the_model_is_in_memory_and_elsewhere_once_that_box_is_gone(tmp_path: Path) -> None:
    """The router knows no size of this model. So it chooses a box by our /api/ps alone."""
    client = httpx.Client(timeout=60, trust_env=False)
    with client, nodes(2) as boxes, herd(tmp_path, [one.url for one in boxes]) as url:

        def is_hot_on(*numbers: int) -> bool:
            """Asks these boxes, so that the model stays hot there, and the router."""
            told = [chat(client, boxes[number].url, "hello") for number in numbers]
            return told == ["hello"] * len(numbers) and homes(client, url) == {f"box{number}" for number in numbers}

        assert [one["model"] for one in client.get(f"{url}/api/tags").json()["models"]] == [MODEL]
        until(lambda: is_hot_on(1), 60)
        for number in range(4):
            assert chat(client, url, f"question {number} of Ollama") == f"question {number} of Ollama"
            assert completion(client, url, f"question {number} of OpenAI") == f"question {number} of OpenAI"
        assert (in_memory(client, boxes[0].url), in_memory(client, boxes[1].url)) == ([], [MODEL])
        until(lambda: is_hot_on(0, 1), 60)
        os.kill(boxes[1].pid, signal.SIGKILL)
        until(lambda: is_hot_on(0), 60)
        assert chat(client, url, "still here") == "still here"
