"""POST /api/generate on fake engines: answers, raw text, a context that comes back, loading and unloading."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.server import fake_pool, serving

from edgeserve.engine import Rung


def generate(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/api/generate", json={"model": "llm", "stream": False, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(client: httpx.Client, status: int, **body: Any) -> str:
    answer = client.post("/api/generate", json={"model": "llm", "stream": False, **body})
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"])


def test_a_stream_of_texts(client: httpx.Client) -> None:
    answer = client.post("/api/generate", json={"model": "llm", "prompt": "one two"})
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["response"] for one in found] == ["one", " two", ""]
    assert [one["done"] for one in found] == [False, False, True]
    assert found[-1]["done_reason"] == "stop"


def test_a_context_brings_the_conversation_back(client: httpx.Client) -> None:
    first = generate(client, prompt="one two", system="short")
    assert first["response"] == "one two"
    assert all(isinstance(one, int) for one in first["context"])
    second = generate(client, prompt="three", context=first["context"])
    assert second["prompt_eval_count"] == 6  # short one two, one two, three
    assert generate(client, prompt="three", context=[])["prompt_eval_count"] == 1


def test_a_foreign_context_is_refused(client: httpx.Client) -> None:
    assert "not the context of an answer of this server" in refusal(client, 400, prompt="a", context=[1, 2, 3, 4])


def test_raw_text_is_continued_without_a_template(client: httpx.Client) -> None:
    found = generate(client, prompt="one two", raw=True)
    assert found["response"] == "one two"
    assert "context" not in found
    assert "system cannot stand beside raw" in refusal(client, 400, prompt="a", raw=True, system="b")


def test_what_no_model_here_can_do_is_refused(client: httpx.Client) -> None:
    assert "its own chat template" in refusal(client, 400, prompt="a", template="{{ .Prompt }}")
    assert generate(client, prompt="a", template="", suffix="")["response"] == "a"


def test_a_suffix_stands_behind_a_gap(client: httpx.Client) -> None:
    found = generate(client, prompt="def add(a, b):", suffix="return c")
    assert found["response"] == "def add(a, b): return c"
    assert "context" not in found
    assert generate(client, prompt="", suffix="b")["response"] == "b"
    assert "system cannot stand beside suffix" in refusal(client, 400, prompt="a", suffix="b", system="c")


def test_a_suffix_needs_a_model_that_fills_in() -> None:
    with serving(fake_pool(["llm"])) as running:
        assert refusal(running.client, 400, prompt="a", suffix="b") == '"llm" does not support insert'


def test_a_format_holds(client: httpx.Client) -> None:
    assert generate(client, prompt='say {"a": 1} now', format="json")["response"] == '{"a": 1}'


@pytest.mark.parametrize(("keep_alive", "reason", "rung"), [("10m", "load", Rung.HOT), (0, "unload", Rung.WARM)])
def test_an_empty_prompt_loads_or_unloads(keep_alive: Any, reason: str, rung: Rung) -> None:
    with serving(fake_pool(["llm"])) as running:
        body = {"model": "fake-llm:latest", "prompt": "", "keep_alive": keep_alive, "stream": False}
        found = running.client.post("/api/generate", json=body).json()
        assert found.pop("created_at")
        assert found == {"model": "fake-llm:latest", "response": "", "done": True, "done_reason": reason}
        assert running.pool.rung("llm") is rung
