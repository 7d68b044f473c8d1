"""POST /v1/responses on fake engines, whole and streamed, judged by the rules of OpenAI's own client."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel
from support.server import fake_pool, serving

from edgeserve.api import fragments
from edgeserve.api.fragments import Fragment
from edgeserve.api.responses import output, renderer
from edgeserve.api.responses.store import Owner, ResponseStore

ADD: Any = {"type": "function", "name": "add", "description": "Adds", "parameters": {"type": "object"}, "strict": False}
CLOCK: Any = {"type": "function", "name": "clock"}
SEARCH: Any = {"type": "web_search"}


def respond(client: httpx.Client, given: Any, **body: Any) -> Any:
    answer = client.post("/v1/responses", json={"input": given, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def streamed(client: httpx.Client, given: Any, **body: Any) -> list[Any]:
    """The events of a stream, whose lines and numbers are checked."""
    answer = client.post("/v1/responses", json={"input": given, "stream": True, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("\n\n")
    events = []
    for block in answer.text.removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    return events


def texts(response: Any) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def refusal(client: httpx.Client, status: int = 400, **body: Any) -> Any:
    answer = client.post("/v1/responses", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def test_a_whole_response_has_the_parts_of_openais(client: httpx.Client) -> None:
    response = respond(client, "one two", metadata={"a": "b"}, user="me", temperature=0, instructions="Be short.")
    (item,) = response["output"]
    assert item["id"].startswith("msg_")
    assert item["content"] == [{"type": "output_text", "text": "one two", "annotations": [], "logprobs": []}]
    assert item["status"] == response["status"] == "completed"
    assert response["id"].startswith("resp_")
    assert (response["object"], response["model"]) == ("response", "fake-llm")
    assert response["completed_at"] >= response["created_at"] > 0
    assert response["metadata"] == {"a": "b"}
    assert (response["user"], response["temperature"], response["instructions"]) == ("me", 0, "Be short.")
    assert (response["error"], response["incomplete_details"], response["tool_choice"]) == (None, None, "auto")
    assert response["usage"] == {
        "input_tokens": 4,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 6,
    }


def test_a_stream_tells_the_message_in_the_order_of_openais_events(client: httpx.Client) -> None:
    events = streamed(client, "one two")
    assert [one["type"].removeprefix("response.") for one in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    first, last = events[0]["response"], events[-1]["response"]
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    assert first["id"] == events[1]["response"]["id"] == last["id"]
    assert events[8]["item"] == last["output"][0]
    assert events[7]["part"] == last["output"][0]["content"][0]
    assert "".join(one["delta"] for one in events[4:6]) == events[6]["text"] == "one two"
    assert last["usage"]["total_tokens"] == 4


def test_thoughts_are_an_item_before_the_message(client: httpx.Client) -> None:
    events = streamed(client, "<think> let me see </think> one two")
    kinds = [one["type"].removeprefix("response.") for one in events]
    assert kinds[2:9] == [
        "output_item.added",
        "content_part.added",
        *["reasoning_text.delta"] * 3,
        "reasoning_text.done",
        "content_part.done",
    ]
    thoughts, message = events[-1]["response"]["output"]
    assert thoughts["type"] == "reasoning"
    assert thoughts["summary"] == []
    assert [one["type"] for one in thoughts["content"]] == ["reasoning_text"]
    assert thoughts["content"][0]["text"].split() == ["let", "me", "see"]
    assert message["content"][0]["text"] == "one two"
    assert events[-1]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    whole = respond(client, "<think> let me see </think> one two")["output"]
    assert [one["content"] for one in whole] == [thoughts["content"], message["content"]]


def test_calls_are_items_and_tools_of_other_types_are_left_out(client: httpx.Client) -> None:
    tools = [SEARCH, ADD, {"type": "custom", "name": "apply_patch"}, {"type": "namespace", "name": "x", "tools": []}]
    events = streamed(client, 'add {"a": 1}', tools=tools)
    response = events[-1]["response"]
    (call,) = response["output"]
    assert (call["type"], call["name"], call["status"]) == ("function_call", "add", "completed")
    assert json.loads(call["arguments"]) == {"a": 1}
    assert call["id"].startswith("fc_")
    assert call["call_id"].startswith("call_")
    assert response["tools"] == [ADD]
    added = next(one for one in events if one["type"] == "response.output_item.added")["item"]
    assert (added["id"], added["call_id"], added["arguments"]) == (call["id"], call["call_id"], "")
    assert respond(client, "search the web", tools=[SEARCH])["output"][0]["type"] == "message"


def test_several_calls_have_indices_of_their_own(client: httpx.Client) -> None:
    events = streamed(client, "add clock", tools=[ADD, CLOCK])
    added = [one for one in events if one["type"] == "response.output_item.added"]
    assert [(one["output_index"], one["item"]["name"]) for one in added] == [(0, "add"), (1, "clock")]
    one = respond(client, "add clock", tools=[ADD, CLOCK], parallel_tool_calls=False)
    assert [item["name"] for item in one["output"]] == ["add"]


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ("none", []),
        ("required", ["add"]),
        ({"type": "function", "name": "clock"}, ["clock"]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [SEARCH, {"type": "function", "name": "clock"}]},
            ["clock"],
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "clock"}]}, []),
    ],
)
def test_tool_choice_is_flat(client: httpx.Client, choice: Any, called: list[str]) -> None:
    response = respond(client, "hello", tools=[ADD, CLOCK], tool_choice=choice)
    assert [one["name"] for one in response["output"] if one["type"] == "function_call"] == called
    assert response["tool_choice"] == choice


def test_an_answer_that_is_cut_is_incomplete(client: httpx.Client) -> None:
    response = respond(client, "one two three", max_output_tokens=2)
    assert (response["status"], response["completed_at"]) == ("incomplete", None)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    last = streamed(client, "one two three", max_output_tokens=2)[-1]
    assert last["type"] == "response.incomplete"
    assert texts(last["response"]) == "one two"


def test_log_probabilities_come_where_they_are_asked_for(client: httpx.Client) -> None:
    asked = {"include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2}
    part = respond(client, "one two", **asked)["output"][0]["content"][0]
    assert [one["token"] for one in part["logprobs"]] == ["one", " two"]
    assert [len(one["top_logprobs"]) for one in part["logprobs"]] == [2, 2]
    events = streamed(client, "one two", include=["message.output_text.logprobs"])
    told = [one for event in events if event["type"] == "response.output_text.delta" for one in event["logprobs"]]
    assert told == events[-1]["response"]["output"][0]["content"][0]["logprobs"]


def test_json_is_asked_for_in_text_format(client: httpx.Client) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    form = {"type": "json_schema", "name": "city", "schema": schema, "strict": True}
    response = respond(client, 'where? {"city": "Paris"}', text={"format": form, "verbosity": "low"})
    assert json.loads(texts(response)) == {"city": "Paris"}
    assert response["text"] == {"format": form, "verbosity": "low"}
    assert texts(respond(client, 'x {"a": 1}', text={"format": {"type": "json_object"}})) == '{"a": 1}'


def test_a_failure_in_the_middle_is_the_last_event() -> None:
    with serving(fake_pool(("llm",), fail_word="boom")) as running:
        *_, added, part, delta, last = streamed(running.client, "one boom two")
        assert [one["type"] for one in (added, part, delta)] == [
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
        ]
        failed = last["response"]
        assert (last["type"], failed["status"]) == ("response.failed", "failed")
        assert failed["error"]["code"] == "engine_failure"
        assert "boom" in failed["error"]["message"]
        assert [one["id"] for one in failed["output"]] == [added["item"]["id"]]
        assert running.client.get(f"/v1/responses/{failed['id']}").status_code == 404


def test_an_error_before_the_stream_is_openais(client: httpx.Client) -> None:
    for stream in (False, True):
        error = refusal(client, input="word " * 3000, stream=stream, model="llm")
        assert error["code"] == "context_length_exceeded"
        assert error["param"] == "input"
    assert refusal(client, input="a", background=True)["param"] == "background"
    assert "previous_response_id" in refusal(client, input="a", conversation="conv_1")["message"]
    assert refusal(client, input=[])["param"] == "input"
    assert refusal(client, input=[{"type": "web_search_call", "id": "ws_1"}])["param"] == "input"
    assert refusal(client, 404, input="a", model="whisper-1")["code"] == "model_not_found"
    assert refusal(client, input="a", tools=[{"type": "function"}])["param"] == "tools[0].name"
    hosted = {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH]}
    for choice in ({"type": "web_search"}, hosted):
        assert refusal(client, input="a", tools=[SEARCH], tool_choice=choice)["param"].startswith("tool_choice")


def test_an_errors_param_is_the_field_of_this_dialect(client: httpx.Client) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    said = [{"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, picture]}]
    answer = client.post("/v1/responses", json={"input": said})
    assert answer.status_code == 415
    assert answer.json()["error"]["param"] == "input[0].content[1].image_url"


def test_input_tokens_counts_the_prompt(client: httpx.Client, ai: OpenAI) -> None:
    body = {"input": "one two three", "instructions": "Be short."}
    counted = client.post("/v1/responses/input_tokens", json=body)
    assert counted.json() == {"object": "response.input_tokens", "input_tokens": 5}
    assert respond(client, given=body["input"], instructions="Be short.")["usage"]["input_tokens"] == 5
    assert ai.responses.input_tokens.count(model="llm", input="one two").input_tokens == 2


def test_the_strict_helper_of_openais_client_takes_the_stream(ai: OpenAI) -> None:
    for text in ("one two", "<think> hm </think> one two", "<think> hm </think>", "add 1", "add clock", " "):
        said: Any = [{"role": "user", "content": text}]
        with ai.responses.stream(model="llm", input=said, tools=[ADD, CLOCK]) as events:
            kinds = [one.type for one in events]
            final = events.get_final_response()
        assert kinds[0] == "response.created"
        assert final.status == "completed"
        assert final.output
        assert final.output_text.strip() in text


def test_parse_returns_the_object(ai: OpenAI) -> None:
    class City(BaseModel):
        city: str

    answer = ai.responses.parse(model="llm", input='{"city": "Paris"}', text_format=City)
    assert answer.output_parsed == City(city="Paris")


def test_the_client_goes_a_round_with_a_call(ai: OpenAI) -> None:
    first: Any = ai.responses.create(model="llm", input='add {"a": 1}', tools=[ADD])
    (call,) = first.output
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "seven"}
    by_id = ai.responses.create(model="llm", previous_response_id=first.id, input=[result], tools=[ADD])
    assert by_id.output_text == "seven"
    again = ai.responses.create(model="llm", input=["add", call, result][1:], tools=[ADD], store=False)
    assert again.output_text == "seven"
    assert by_id.previous_response_id == first.id
    with pytest.raises(openai.BadRequestError) as caught:
        ai.responses.create(model="llm", previous_response_id="resp_none", input="a")
    assert caught.value.code == "previous_response_not_found"
    assert "Previous response with id 'resp_none' not found." in caught.value.message


def test_stored_items_are_looked_up_beside_the_loop(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may have 64 responses of thousands of items: to list them all took 0.1 s for each reference."""
    threads: list[str] = []
    items = ResponseStore.items

    def noted(store: ResponseStore, owner: Owner) -> Any:
        threads.append(threading.current_thread().name)
        return items(store, owner)

    monkeypatch.setattr(ResponseStore, "items", noted)
    respond(client, "one", previous_response_id=respond(client, "one")["id"])
    assert threads == [], "nothing refers to an item"
    refusal(client, 404, input=[{"type": "item_reference", "id": "msg_none"}])
    assert len(threads) == 1
    assert threads[0].startswith("edgeserve the reading of bodies")


@pytest.mark.parametrize("stream", [False, True])
def test_long_fields_are_written_once_and_beside_the_loop(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Tools of 0.6 MB were written value by value for three events of a stream: each held the event loop for 0.35 s."""
    written: list[tuple[str, object]] = []

    def noted(value: Any, *given: Any) -> str:
        told = value.get("response", value)
        written.append((threading.current_thread().name, told.get("tools")))
        return fragments.written(value, *given)

    for module in (output, renderer):
        monkeypatch.setattr(module, "written", noted)
    tools = [ADD | {"name": f"t{number}", "description": "d" * 1000} for number in range(128)]
    body = {"input": "one", "tools": tools, "tool_choice": "none", "stream": stream, "store": False}
    answer = client.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    told = [json.loads(one.removeprefix("data: ")) for one in answer.text.split("\n") if one.startswith("data: ")]
    whole = [one["response"] for one in told if "response" in one] if stream else [answer.json()]
    assert [one["tools"] for one in whole] == [tools] * (3 if stream else 1)
    whole_ones = [one for one in written if one[1] is not None]
    assert len(whole_ones) == len(whole)
    assert all(isinstance(tools, Fragment) for _, tools in whole_ones)
    assert all(name.startswith("edgeserve the writing of answers") for name, _ in written)


def test_a_short_response_is_written_by_the_loop(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()

    def noted(*given: Any) -> str:
        threads.add(threading.current_thread().name)
        return fragments.written(*given)

    monkeypatch.setattr(renderer, "written", noted)
    respond(client, "one", tools=[ADD], instructions="Say it.")
    assert len(threads) == 1
    assert not threads.pop().startswith("edgeserve the writing of answers")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tool_choice", '{"type": "function", "name": "add", "more": 1e999}'),
        ("text", '{"format": {"type": "text", "more": [-1e999]}}'),
    ],
)
def test_a_number_that_no_json_can_repeat_is_refused(client: httpx.Client, field: str, value: str) -> None:
    data = f'{{"input": "one", "tools": [{json.dumps(ADD)}], "{field}": {value}}}'
    answer = client.post("/v1/responses", content=data, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"] == f"{field} holds a number beyond the range of a float"


@pytest.mark.parametrize(
    ("fields", "longest", "size"),
    [
        ({"tools": [ADD | {"description": "d" * 2_000_000}], "tool_choice": "none"}, "tools", 2_000_000),
        ({"instructions": "é" * 1_100_000}, "instructions", 1_100_000),
        (
            {"tools": [ADD | {"name": f"t{number}", "description": "d" * 10_000} for number in range(128)]},
            "tools",
            1_280_000,
        ),
    ],
)
def test_fields_that_no_response_repeats(client: httpx.Client, fields: dict[str, Any], longest: str, size: int) -> None:
    """Tools of 15 MB that no prompt holds made three events of 15 MB, and a slow reader kept each in memory."""
    error = refusal(client, 413, input="one", **fields)
    text = rf"{longest} has ([\d,]+) characters, and [\d,]+ with the other fields that a response repeats; "
    found = re.fullmatch(text + "the limit is 1,048,576: send fewer", error["message"])
    assert found, error["message"]
    assert size <= int(found[1].replace(",", "")) < size + 20_000
    assert error["param"] == longest
