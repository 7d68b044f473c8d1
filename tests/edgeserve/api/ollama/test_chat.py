"""POST /api/chat on fake engines: lines and whole answers, tools, pictures, forms, loading and unloading."""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support import bodies
from support.server import Running, fake_pool, serving

from edgeserve.engine import Rung
from edgeserve.errors import EngineFailure

SAID = [{"role": "user", "content": "one two three"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "the time",
        "parameters": {"type": "object", "required": ["tz"], "properties": {"tz": {"type": "string"}}},
    },
}
PNG = base64.b64encode(bodies.PNG).decode()


def chat(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/api/chat", json={"model": "fake-llm", "messages": SAID, "stream": False, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def lines(client: httpx.Client, path: str = "/api/chat", **body: Any) -> list[Any]:
    answer = client.post(path, json={"model": "fake-llm", "messages": SAID, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


def refusal(client: httpx.Client, status: int, **body: Any) -> str:
    answer = client.post("/api/chat", json={"model": "fake-llm", "messages": SAID, "stream": False, **body})
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error"}
    return str(told["error"])


def test_a_stream_is_the_default_and_ends_with_the_counts(client: httpx.Client) -> None:
    found = lines(client)
    assert [one["message"] for one in found] == [
        {"role": "assistant", "content": text} for text in ("one", " two", " three", "")
    ]
    assert [one["done"] for one in found] == [False, False, False, True]
    assert {one["model"] for one in found} == {"fake-llm"}
    for one in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", one["created_at"])
        datetime.datetime.fromisoformat(one["created_at"])
    last = found[-1]
    assert (last["done_reason"], last["prompt_eval_count"], last["eval_count"]) == ("stop", 3, 3)
    assert last["total_duration"] >= last["prompt_eval_duration"] > 0
    assert all(set(one) == {"model", "created_at", "message", "done"} for one in found[:-1])


def test_a_whole_answer_is_one_object(client: httpx.Client) -> None:
    found = chat(client)
    assert found["message"] == {"role": "assistant", "content": "one two three"}
    assert (found["done"], found["done_reason"], found["eval_count"]) == (True, "stop", 3)


@pytest.mark.parametrize("name", ["fake-llm:latest", "FAKE-LLM", "llm", "fake:llm"])
def test_names_are_taken_with_and_without_a_tag_and_given_back_as_asked(client: httpx.Client, name: str) -> None:
    assert chat(client, model=name)["model"] == name


def test_a_missing_model_is_404_in_ollamas_words(client: httpx.Client) -> None:
    assert refusal(client, 404, model="qwen9").startswith("model 'qwen9' not found")
    assert refusal(client, 400, model="fake-tts") == '"fake-tts" does not support chat'


def test_a_body_needs_no_media_type(client: httpx.Client) -> None:
    body = json.dumps({"model": "llm", "messages": SAID, "stream": False, "surprise": 1})
    answer = client.post("/api/chat", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.json()["message"]["content"] == "one two three"
    assert client.post("/api/chat").json() == {"error": "missing request body"}
    assert "not valid JSON" in client.post("/api/chat", content=b"{").json()["error"]


def test_options_shape_the_answer(client: httpx.Client) -> None:
    found = chat(client, options={"num_predict": 2, "num_ctx": 8192, "seed": -1, "top_k": -1, "no_such": [1]})
    assert (found["message"]["content"], found["done_reason"]) == ("one two", "length")
    for limit in (0, -1, -2):
        assert chat(client, options={"num_predict": limit})["eval_count"] == 3
    assert chat(client, options={"stop": ["two"]})["message"]["content"] == "one"
    assert "options.temperature must be a number" in refusal(client, 400, options={"temperature": "hot"})


@pytest.mark.parametrize(
    ("given", "told"),
    [("", "hello"), (None, "hello"), ("json", "{}"), ({"type": "object", "properties": {}}, "{}")],
)
def test_a_format_is_free_text_json_or_a_schema(client: httpx.Client, given: Any, told: str) -> None:
    said = [{"role": "user", "content": "hello"}]
    assert chat(client, messages=said, format=given)["message"]["content"] == told


def test_a_wrong_format_or_think_is_refused(client: httpx.Client) -> None:
    assert 'format must be "json" or a JSON schema' in refusal(client, 400, format="xml")
    expected = 'invalid think value: "x" (must be "high", "medium", "low", "max", true, or false)'
    assert refusal(client, 400, think="x") == expected
    assert refusal(client, 400, think=True) == '"fake-llm" does not support thinking'
    assert chat(client, think=False)["done"] is True


def test_a_thought_is_apart_from_the_answer() -> None:
    with serving(fake_pool(["llm"], abilities="thinking")) as running:
        said = [{"role": "user", "content": "<think> hm </think> four"}]
        found = chat(running.client, messages=said, think=True)
        assert found["message"] == {"role": "assistant", "content": "four", "thinking": "hm"}
        streamed = [one["message"] for one in lines(running.client, messages=said)]
        assert {"role": "assistant", "content": "", "thinking": "hm"} in streamed
        assert "".join(one["content"] for one in streamed) == "four"


def test_a_call_comes_whole_with_its_arguments_as_an_object(client: httpx.Client) -> None:
    said = [{"role": "USER", "content": 'get_time {"tz": "UTC"}'}]
    for found in (lines(client, messages=said, tools=[TOOL])[0], chat(client, messages=said, tools=[TOOL])):
        assert found["message"]["content"] == ""
        (call,) = found["message"]["tool_calls"]
        assert re.fullmatch("call_[a-z0-9]{8}", call["id"])
        assert call["function"] == {"index": 0, "name": "get_time", "arguments": {"tz": "UTC"}}
    assert chat(client, messages=said, tools=[TOOL])["done_reason"] == "stop"


def test_results_go_back_without_ids(client: httpx.Client) -> None:
    called = {"function": {"name": "get_time", "arguments": {"tz": "UTC"}}}
    as_text = {"type": "function", "id": "call_1", "function": {"name": "get_time", "arguments": '{"tz": "UTC"}'}}
    for one in (called, as_text):
        messages = [
            *SAID,
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [one]},
            {"role": "tool", "content": "12:00", "tool_name": "get_time"},
        ]
        assert chat(client, messages=messages, tools=[TOOL])["message"]["content"] == "12:00"


def test_pictures_are_bare_base64(client: httpx.Client) -> None:
    said = [
        {"role": "user", "content": "see", "images": [PNG, f"data:image/png;base64,{PNG}", f"{PNG[:8]}\n{PNG[8:]}"]}
    ]
    found = chat(client, model="fake-vision", messages=said)
    assert found["message"]["content"].startswith("3 images of ")
    assert refusal(client, 400, messages=said) == '"fake-llm" does not support vision'
    broken = [{"role": "user", "content": "see", "images": ["***"]}]
    assert refusal(client, 400, model="fake-vision", messages=broken).startswith("messages[0].images[0]: ")
    many = [{"role": "user", "content": "see", "images": [PNG] * 9}]
    assert "the limit is 8" in refusal(client, 400, model="fake-vision", messages=many)


def test_logprobs_stand_in_each_chunk(client: httpx.Client) -> None:
    first = lines(client, logprobs=True, top_logprobs=2)[0]["logprobs"]
    assert [set(one) for one in first] == [{"token", "logprob", "bytes", "top_logprobs"}]
    assert (first[0]["token"], first[0]["bytes"], len(first[0]["top_logprobs"])) == ("one", [111, 110, 101], 2)
    assert len(chat(client, logprobs=True)["logprobs"]) == 3
    assert "top_logprobs must lie between 0 and 20" in refusal(client, 400, top_logprobs=21)


def test_no_messages_load_the_model_and_keep_alive_0_unloads_it() -> None:
    with serving(fake_pool(["llm"])) as running:
        gate = running.pool.gates["llm"]
        for body in ({"keep_alive": "5m"}, {"keep_alive": -1, "messages": []}):
            answer = running.client.post("/api/chat", json={"model": "llm", **body})
            assert answer.headers["content-type"] == "application/json"
            found = answer.json()
            assert set(found) == {"model", "created_at", "message", "done", "done_reason"}
            assert (found["done"], found["done_reason"], found["message"]["content"]) == (True, "load", "")
            assert gate.rung is Rung.HOT
        assert gate.keep_alive == float("inf")
        found = running.client.post("/api/chat", json={"model": "llm", "keep_alive": 0}).json()
        assert (found["done_reason"], gate.rung) == ("unload", Rung.WARM)


def test_an_error_in_a_stream_is_a_line_of_its_own() -> None:
    with serving(fake_pool(["llm"], fail_word="three")) as running:
        found = lines(running.client)
        assert [one["message"]["content"] for one in found[:-1]] == ["one", " two"]
        assert set(found[-1]) == {"error"}
        assert "failed at the word" in found[-1]["error"]


def test_an_error_before_the_stream_has_a_status() -> None:
    with serving(fake_pool(["llm"])) as running:
        engine: Any = _engine(running)

        def fail(request: Any, cancel: Any) -> Iterator[Any]:
            raise EngineFailure("as arranged")
            yield

        engine.chat = fail
        answer = running.client.post("/api/chat", json={"model": "llm", "messages": SAID})
        assert (answer.status_code, answer.json()) == (500, {"error": "as arranged"})


def _engine(running: Running) -> Any:
    from support.gates import engine_of

    return engine_of(running.pool.gates["llm"])


def test_a_conversation_that_is_too_long_loses_its_oldest_turns_unless_it_may_not() -> None:
    with serving(fake_pool(["llm"], context=12)) as running:
        said = [{"role": "user", "content": "one two three"}, {"role": "assistant", "content": "four five"}] * 4
        said.append({"role": "user", "content": "six"})
        found = chat(running.client, model="llm", messages=said)
        assert (found["message"]["content"], found["prompt_eval_count"]) == ("six", 6)
        assert "tokens long" in refusal(running.client, 400, model="llm", messages=said, truncate=False)


def test_a_field_without_a_name_is_ignored_too(client: httpx.Client) -> None:
    """A header that ends in a space cannot be written."""
    answer = client.post("/api/chat", json={"model": "llm", "messages": SAID, "colour": 1, "": 1})
    assert (answer.status_code, answer.headers["x-edgeserve-ignored"]) == (200, 'colour, ""')
