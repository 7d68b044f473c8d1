"""llama-server's infill over HTTP, in the shapes of its tests and of llama.vim."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.server import fake_pool, serving

BODY = {"input_prefix": "def add(a, b):", "input_suffix": "return c"}


def ask(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/infill", json=BODY | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_prompt_is_the_files_and_both_sides_of_the_gap(client: httpx.Client) -> None:
    files = [{"filename": "c.py", "text": "c = 1"}, {"text": ""}, {"text": "d = 2"}]
    told = ask(client, input_extra=files, prompt=" c = ")
    assert told["content"] == "c = 1 d = 2 def add(a, b): c = return c"
    assert (told["stop"], told["tokens_evaluated"]) == (True, 13)


def test_a_stream(client: httpx.Client) -> None:
    answer = client.post("/infill", json=BODY | {"stream": True, "n_predict": 2})
    *parts, last = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
    assert ["".join(one["content"] for one in parts), last["stop"], last["stop_type"]] == ["def add(a,", True, "limit"]


def test_the_request_of_llama_vim(client: httpx.Client) -> None:
    fields = ["content", "timings/prompt_n", "timings/predicted_ms", "truncated", "tokens_cached"]
    answer = client.post(
        "/infill",
        json={
            **BODY,
            "input_extra": [],
            "prompt": "",
            "n_predict": 128,
            "n_indent": 4,
            "top_k": 40,
            "top_p": 0.9,
            "stream": False,
            "samplers": ["top_k", "top_p", "infill"],
            "cache_prompt": True,
            "t_max_prompt_ms": 500,
            "t_max_predict_ms": 1000,
            "response_fields": fields,
        },
    )
    assert answer.status_code == 200, answer.text
    assert "x-edgeserve-ignored" not in answer.headers
    assert list(answer.json()) == fields


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input_prefix": None}, "input_prefix"),
        ({"input_suffix": None}, "input_suffix"),
        ({"input_suffix": 5}, "input_suffix"),
        ({"input_extra": [{"filename": "a"}]}, "input_extra[0].text"),
        ({"input_extra": ["a"]}, "input_extra[0]"),
        ({"prompt": [1]}, "prompt"),
        ({"return_tokens": True}, "return_tokens"),
    ],
)
def test_mistakes_name_their_field(client: httpx.Client, body: dict[str, Any], param: str) -> None:
    answer = client.post("/infill", json=BODY | body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_model_without_the_tokens_is_named_as_the_reason() -> None:
    with serving(fake_pool(["llm"])) as running:
        answer = running.client.post("/infill", json=BODY)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "not_supported", "input_suffix")
    assert "no tokens for a text with a gap" in error["message"]
