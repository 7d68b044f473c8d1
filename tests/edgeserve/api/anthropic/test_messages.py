"""POST /v1/messages and the count of its prompt, on fake engines."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support import bodies
from support.gates import HeldAnswer
from support.server import Running, fake_pool, serving

from edgeserve.api import line

SAID = [{"role": "user", "content": "one two three"}]
TOOL = {
    "name": "get_time",
    "description": "the time",
    "input_schema": {"type": "object", "required": ["tz"], "properties": {"tz": {"type": "string"}}},
}
ASKS = [{"role": "user", "content": 'get_time {"tz": "UTC"}'}]
PNG = base64.b64encode(bodies.PNG).decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def send(client: httpx.Client, path: str = "/v1/messages", **fields: Any) -> httpx.Response:
    body = {"model": "fake-llm", "max_tokens": 64, "messages": SAID, **fields}
    return client.post(path, json={name: one for name, one in body.items() if one is not None})


def message(client: httpx.Client, **fields: Any) -> Any:
    answer = send(client, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def said(client: httpx.Client, **fields: Any) -> str:
    return "".join(one["text"] for one in message(client, **fields)["content"])


def events(client: httpx.Client, **fields: Any) -> list[tuple[str, Any]]:
    answer = send(client, stream=True, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parsed(answer.text)


def parsed(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_whole_message(client: httpx.Client) -> None:
    found = message(client)
    assert found["content"] == [{"type": "text", "text": "one two three"}]
    assert (found["type"], found["role"], found["model"], found["stop_reason"]) == (
        "message",
        "assistant",
        "fake-llm",
        "end_turn",
    )
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (3, 3)


def test_a_stream(client: httpx.Client) -> None:
    found = events(client)
    assert [name for name, _ in found] == [
        "message_start",
        "ping",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert found[0][1]["message"]["usage"]["input_tokens"] == 3
    assert "".join(one["delta"]["text"] for name, one in found if name == "content_block_delta") == "one two three"
    assert found[-2][1]["usage"]["output_tokens"] == 3


def test_limits_and_stop_sequences(client: httpx.Client) -> None:
    cut, stopped = message(client, max_tokens=2), message(client, stop_sequences=["three", "", "four"])
    assert (cut["stop_reason"], cut["content"][0]["text"]) == ("max_tokens", "one two")
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "three")
    assert stopped["content"][0]["text"] == "one two"
    assert message(client, max_tokens=1_000_000)["stop_reason"] == "end_turn"


@pytest.mark.parametrize("choice", [None, {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "get_time"}])
def test_a_call(client: httpx.Client, choice: Any) -> None:
    found = message(client, messages=ASKS, tools=[TOOL], tool_choice=choice)
    (call,) = found["content"]
    assert call.pop("id").startswith("toolu_")
    assert call == {"type": "tool_use", "name": "get_time", "input": {"tz": "UTC"}}
    assert found["stop_reason"] == "tool_use"
    told = events(client, messages=ASKS, tools=[TOOL], tool_choice=choice)
    start = next(one for name, one in told if name == "content_block_start")
    delta = next(one for name, one in told if name == "content_block_delta")
    assert (start["content_block"]["name"], start["content_block"]["input"]) == ("get_time", {})
    assert json.loads(delta["delta"]["partial_json"]) == {"tz": "UTC"}


def test_no_call_is_made_where_none_is_allowed(client: httpx.Client) -> None:
    found = message(client, messages=ASKS, tools=[TOOL], tool_choice={"type": "none"})
    assert [one["type"] for one in found["content"]] == ["text"]


def test_calls_of_an_answer_may_be_one_alone(client: httpx.Client) -> None:
    both = [{"role": "user", "content": "get_time get_date"}]
    tools = [TOOL, {"name": "get_date", "input_schema": {"type": "object"}}]
    counts = [
        len(message(client, messages=both, tools=tools, tool_choice=choice)["content"])
        for choice in ({"type": "auto"}, {"type": "auto", "disable_parallel_tool_use": True})
    ]
    assert counts == [2, 1]


def test_results_come_back(client: httpx.Client) -> None:
    first = message(client, messages=ASKS, tools=[TOOL])
    result = {"type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": "noon"}
    talk = [*ASKS, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    assert message(client, messages=talk, tools=[TOOL])["content"] == [{"type": "text", "text": "noon"}]


def test_thoughts_are_told_where_they_are_wanted(client: httpx.Client) -> None:
    thinks = [{"role": "user", "content": "<think> hm </think> yes"}]
    assert message(client, messages=thinks)["content"] == [{"type": "text", "text": "yes"}]
    found = message(client, messages=thinks, thinking={"type": "enabled", "budget_tokens": 1024})["content"]
    assert found == [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "yes"}]
    kinds = [
        one["content_block"]["type"]
        for name, one in events(client, messages=thinks, thinking={"type": "adaptive"})
        if name == "content_block_start"
    ]
    assert kinds == ["thinking", "text"]


def test_pictures_are_seen(client: httpx.Client) -> None:
    asked = [{"role": "user", "content": [IMAGE, {"type": "text", "text": "hello"}]}]
    assert said(client, model="", messages=asked) == "1 images of 67 bytes: hello"
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [IMAGE, {"type": "text", "text": "see"}]}
    talk = [*SAID, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert said(client, model="", messages=talk) == "1 images of 67 bytes: see"


def test_files_of_documents_are_read(client: httpx.Client) -> None:
    source = {"type": "base64", "media_type": "text/plain", "data": base64.b64encode(b"one two").decode()}
    asked = [
        {
            "role": "user",
            "content": [{"type": "document", "title": "T", "source": source}, {"type": "text", "text": "x"}],
        }
    ]
    assert said(client, messages=asked) == "T one two x"
    wrong = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(b"%PDF-1.4 broken").decode()}
    answer = send(client, messages=[{"role": "user", "content": [{"type": "document", "source": wrong}]}])
    assert answer.status_code in (400, 415)
    assert answer.json()["error"]["param"] == "messages[0].content[0].source"


@pytest.mark.parametrize(
    ("source", "status", "param"),
    [
        ({"type": "base64", "media_type": "image/png", "data": "not base64!"}, 400, "messages[0].content[0].source"),
        ({"type": "base64", "media_type": "image/png", "data": "QUJD"}, 415, "messages[0].content[0].source"),
        ({"type": "url", "url": "https://example.com/a.png"}, 400, "messages[0].content[0].source"),
    ],
)
def test_pictures_that_are_refused(client: httpx.Client, source: Any, status: int, param: str) -> None:
    answer = send(client, model="", messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


def test_too_many_pictures(client: httpx.Client) -> None:
    answer = send(client, messages=[{"role": "user", "content": [IMAGE] * 9}])
    assert answer.json()["error"]["message"] == "messages hold 9 images and files; the limit is 8"


def test_a_schema_holds_the_answer(client: httpx.Client) -> None:
    form = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    asked = [{"role": "user", "content": 'say {"a": 1} please'}]
    assert json.loads(said(client, messages=asked, output_config=form)) == {"a": 1}


def test_accepted_fields_change_nothing(client: httpx.Client) -> None:
    answer = send(
        client,
        metadata={"user_id": "user_1"},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
        container="c",
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        mcp_servers=[],
        temperature=1,
        top_k=5,
        top_p=0.9,
    )
    assert answer.json()["content"][0]["text"] == "one two three"
    assert "x-edgeserve-ignored" not in answer.headers


def test_an_unknown_field_is_named_and_ignored(client: httpx.Client) -> None:
    answer = send(client, colour="red", messages=[{"role": "user", "content": "hi", "name": "x"}])
    assert answer.status_code == 200
    assert answer.headers["x-edgeserve-ignored"] == "messages[0].name, colour"


def test_names_of_models_elsewhere_mean_the_default(client: httpx.Client) -> None:
    with serving(fake_pool(("llm", "vision"))) as running:
        running.pool.stand_ins = True
        assert message(running.client, model="claude-haiku-4-5-20251001")["model"] == "fake-llm"
        pictured = [{"role": "user", "content": [IMAGE]}]
        assert message(running.client, model="claude-sonnet-4-5", messages=pictured)["model"] == "fake-vision"
    answer = send(client, model="claude-haiku-4-5-20251001")  # a server that refuses names it does not have
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


def test_the_count_of_a_prompt(client: httpx.Client) -> None:
    answer = send(client, "/v1/messages/count_tokens", max_tokens=None, system="Be short.", tools=[TOOL])
    assert answer.json() == {"input_tokens": 5}
    assert send(client, "/v1/messages/count_tokens", max_tokens=None, messages=5).json()["type"] == "error"


def test_a_prompt_beyond_the_context_is_counted() -> None:
    with serving(fake_pool(("llm",), context=2)) as running:
        answer = send(running.client, "/v1/messages/count_tokens", max_tokens=None)
        assert answer.json() == {"input_tokens": 3}


@pytest.fixture
def failing() -> Iterator[Running]:
    with serving(fake_pool(("llm",), fail_word="two")) as running:
        yield running


def test_an_error_after_the_beginning_is_the_last_event(failing: Running) -> None:
    found = events(failing.client)
    assert found[0][0] == "message_start"
    assert found[-1][0] == "error"
    assert found[-1][1]["error"]["type"] == "api_error"
    answer = send(failing.client)
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")


def test_pings_come_while_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "PING_SECONDS", 0.01)
    names: list[str] = []
    body = {"model": "fake-llm", "max_tokens": 64, "messages": SAID, "stream": True}
    with (
        serving(fake_pool(("llm",))) as running,
        HeldAnswer(running.pool.gates["llm"]) as held,
        running.client.stream("POST", "/v1/messages", json=body) as answer,
    ):
        for text in answer.iter_lines():
            if text.startswith("event: "):
                names.append(text.removeprefix("event: "))
            if names.count("ping") == 3:  # one comes with message_start
                held.go.set()
    assert names.count("ping") >= 3
    assert names[-1] == "message_stop"


def test_a_client_that_only_probes(client: httpx.Client) -> None:
    assert client.head("/").status_code == 200
