"""llama-server's own completion over HTTP, in the shapes of its tests (tools/server/tests/unit/test_completion.py)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from edgeserve.api.llama_server.completion import FIELD_CHARS


def ask(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/completion", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_whole_completion(client: httpx.Client) -> None:
    told = ask(client, prompt="one two three four", n_predict=2, temperature=0.5, stop=["x"])
    assert (told["content"], told["stop"], told["stop_type"]) == ("one two", True, "limit")
    assert (told["tokens_predicted"], told["tokens_evaluated"], told["truncated"]) == (2, 4, False)
    assert told["model"] == "fake-llm"
    assert told["prompt"] == "one two three four"
    assert told["generation_settings"]["n_predict"] == 2
    assert told["generation_settings"]["stop"] == ["x"]
    assert told["has_new_line"] is False
    timings = told["timings"]
    assert (timings["cache_n"], timings["prompt_n"], timings["predicted_n"]) == (0, 4, 2)
    assert timings["predicted_per_second"] > 0


@pytest.mark.parametrize(("limit", "content"), [(-1, "one two three"), (None, "one two three"), (1, "one")])
def test_without_a_limit_the_model_ends_its_answer(client: httpx.Client, limit: int | None, content: str) -> None:
    told = ask(client, prompt="one two three", n_predict=limit)
    assert told["content"] == content
    assert told["stop_type"] == ("limit" if limit == 1 else "eos")


def test_a_stop_string_is_told(client: httpx.Client) -> None:
    told = ask(client, prompt="one two three", stop=["three", "nine"])
    assert (told["content"], told["stop_type"], told["stopping_word"]) == ("one two", "word", "three")
    told = ask(client, prompt="one two", stop=["nine"])
    assert (told["stop_type"], told["stopping_word"]) == ("eos", "")


def test_a_stream_is_of_the_same_parts(client: httpx.Client) -> None:
    with client.stream("POST", "/completion", json={"prompt": "one two three", "stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    *parts, last = events
    assert "".join(one["content"] for one in parts) == "one two three"
    assert [one["stop"] for one in events] == [False, False, False, True]
    assert (last["content"], last["tokens_predicted"], last["timings"]["predicted_n"]) == ("", 3, 3)


def test_a_stream_tells_the_progress_of_its_prompt(client: httpx.Client) -> None:
    body = {"prompt": "one two three four", "stream": True, "return_progress": True}
    events = [
        json.loads(line.removeprefix("data: "))
        for line in client.post("/completion", json=body).text.split("\n\n")
        if line
    ]
    told = [one["prompt_progress"] for one in events if "prompt_progress" in one]
    assert [(one["total"], one["cache"], one["processed"]) for one in told] == [(4, 0, 0), (4, 0, 2), (4, 0, 4)]
    assert all(one["time_ms"] > 0 for one in told)
    assert [one["content"] for one in events] == ["", "", "", "one", " two", " three", " four", ""]
    assert events[-1]["timings"]["predicted_n"] == 4


def test_a_whole_answer_tells_no_progress(client: httpx.Client) -> None:
    assert "prompt_progress" not in ask(client, prompt="one", return_progress=True)


def test_tokens_are_a_prompt_too(client: httpx.Client) -> None:
    told = ask(client, prompt=[5, 6])
    assert told["tokens_evaluated"] == 2
    assert told["prompt"] == ""


def test_only_the_fields_that_are_asked_for(client: httpx.Client) -> None:
    assert ask(client, prompt="a", response_fields=["content", "stop"]) == {"content": "a", "stop": True}
    paths = ["timings/prompt_n", "timings/none", "content/stop", "content"]
    assert ask(client, prompt="a", response_fields=paths) == {"timings/prompt_n": 1, "content": "a"}


def test_probabilities_of_each_token(client: httpx.Client) -> None:
    told = ask(client, prompt="one two", n_probs=3)
    rows = told["completion_probabilities"]
    assert [row["token"] for row in rows] == ["one", " two"]
    assert [len(row["top_logprobs"]) for row in rows] == [3, 3]
    assert rows[0]["bytes"] == list(b"one")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [5, "mixed"]}, "prompt"),
        ({"prompt": "a", "return_tokens": True}, "return_tokens"),
        ({"prompt": "a", "n": 2}, "n"),
        ({"prompt": "a", "n_probs": -1}, "n_probs"),
    ],
)
def test_mistakes_name_their_field(client: httpx.Client, body: dict[str, Any], param: str) -> None:
    answer = client.post("/completion", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("path", ["/" * (FIELD_CHARS + 1), "a" * 1_000_000])
def test_a_long_path_of_a_field_is_refused(client: httpx.Client, path: str) -> None:
    """Each token cut the path into its parts: 15 million of them held the event loop for 0.2 s a token."""
    answer = client.post("/completion", json={"prompt": "one two", "stream": True, "response_fields": ["stop", path]})
    assert answer.status_code == 400
    text = f"response_fields has {len(path)} characters; the limit is {FIELD_CHARS}"
    assert (answer.json()["error"]["param"], answer.json()["error"]["message"]) == ("response_fields", text)
