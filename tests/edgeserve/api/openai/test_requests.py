"""Requests of real clients, replayed: what the engine gets for each field, on chat and completions alike."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import httpx
import pytest
from support.gates import FAKES
from support.server import Running, fake_pool, serving

from edgeserve.engine import Cancel
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatEvent, ChatRequest, LoosenedEvent, Sampling

SEEN: list[ChatRequest] = []
CHAT = {"messages": [{"role": "user", "content": "hello there friend"}]}
RAW = {"prompt": "hello there friend"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TEXT = json.dumps(SCHEMA, separators=(",", ":"))


class Noting(FakeBatchChat):
    """Notes its requests. A request with the stop string "loose" has keywords that no grammar holds.

    One with the stop string "bad" has a form that cannot be used.
    """

    def _answers(self, request: ChatRequest, cancel: Cancel) -> Generator[ChatEvent | None, None, None]:
        SEEN.append(request)
        if "loose" in request.stop:
            yield LoosenedEvent(("response_format: uniqueItems at a/é, b", "response_format: not"))
        if "bad" in request.stop:
            raise InvalidRequest("no such form", param="grammar" if request.grammar is not None else "response_format")
        yield from super()._answers(request, cancel)


@pytest.fixture(scope="module")
def noting() -> Iterator[Running]:
    with serving(fake_pool(["llm"], fakes={**FAKES, "llm": Noting})) as running:
        yield running


@pytest.fixture(params=["chat", "completions"])
def both(request: pytest.FixtureRequest, noting: Running) -> Any:
    """Asks one of the two routes; returns the answer, and the request that the engine got."""
    path, base = {"chat": ("/v1/chat/completions", CHAT), "completions": ("/v1/completions", RAW)}[request.param]
    return lambda **fields: asked(noting, path, base | fields)


@pytest.fixture
def chat(noting: Running) -> Any:
    return lambda **fields: asked(noting, "/v1/chat/completions", CHAT | fields)


def asked(noting: Running, path: str, body: Mapping[str, Any]) -> tuple[httpx.Response, ChatRequest | None]:
    SEEN.clear()
    answer = noting.client.post(path, json=body)
    return answer, SEEN[0] if SEEN else None


def got(ask: Any, **fields: Any) -> ChatRequest:
    answer, seen = ask(**fields)
    assert answer.status_code == 200, answer.text
    assert "x-edgeserve-ignored" not in answer.headers
    assert seen is not None
    return seen


def refused(ask: Any, param: str, told: str, **fields: Any) -> None:
    answer, _ = ask(**fields)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert told in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"repetition_penalty": 1.2}, {"repeat_penalty": 1.2}),
        ({"repetition_penalty": 1.2, "repeat_penalty": 1.1}, {"repeat_penalty": 1.1}),
        ({"repeat_last_n": -1}, {"repeat_last_n": -1}),
        ({"typical_p": 0.9}, {"typical_p": 0.9}),
        ({"temperature": 3.5}, {"temperature": 3.5}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"top_k": 0}, {"top_k": 0}),
        (
            {"mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2},
            {"mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2},
        ),
        ({"top_n_sigma": 1.5}, {"top_n_sigma": 1.5}),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.1}, {"xtc_probability": 0.5, "xtc_threshold": 0.1}),
        ({"dynatemp_range": 0.5, "dynatemp_exponent": 2}, {"dynatemp_range": 0.5, "dynatemp_exponent": 2}),
        ({"dry_multiplier": 0.0}, {}),
    ],
)
def test_sampling(both: Any, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert got(both, **fields).sampling == Sampling(**expected)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_tokens": -1}, None),
        ({"max_tokens": 0}, 0),
        ({"n_predict": 7}, 7),
        ({"n_predict": -1}, None),
        ({"n_predict": -2}, None),
        ({"n_predict": 7, "max_tokens": 5}, 5),
        ({"max_completion_tokens": 3, "max_tokens": 5}, 3),
        ({"max_completion_tokens": None, "max_tokens": 5}, 5),
    ],
)
def test_the_tokens_of_an_answer(both: Any, fields: dict[str, Any], tokens: int | None) -> None:
    assert got(both, **fields).max_tokens == tokens


def test_no_tokens_at_all_are_an_empty_answer(both: Any) -> None:
    answer = both(max_tokens=0)[0].json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 0


def test_the_end_of_an_answer(both: Any) -> None:
    seen = got(both, min_tokens=5, ignore_eos=True, stop_token_ids=[2, 7], num_ctx=8192, stop=["a", "b", "c", "d", "e"])
    assert (seen.min_tokens, seen.ignore_eos, seen.stop_tokens, seen.context) == (5, True, (2, 7), 8192)
    assert seen.stop == ("a", "b", "c", "d", "e")
    refused(both, "stop_token_ids[1]", "must lie between 0 and", stop_token_ids=[1, -1])
    refused(both, "stop_token_ids", "must be a list of whole numbers, not the number 3", stop_token_ids=3)
    refused(both, "stop_token_ids[0]", "must be a whole number, not null", stop_token_ids=[None])


GRAMMAR = 'root ::= "yes" | "no"'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"grammar": GRAMMAR}, {"grammar": GRAMMAR}),
        ({"guided_grammar": GRAMMAR}, {"grammar": GRAMMAR}),
        ({"structured_outputs": {"grammar": GRAMMAR}}, {"grammar": GRAMMAR}),
        ({"json_schema": SCHEMA}, {"json_schema": TEXT}),
        ({"guided_json": SCHEMA}, {"json_schema": TEXT}),
        ({"guided_json": TEXT}, {"json_schema": TEXT}),
        ({"structured_outputs": {"json": SCHEMA}}, {"json_schema": TEXT}),
        ({"structured_outputs": {"json": TEXT}}, {"json_schema": TEXT}),
        ({"structured_outputs": {"json_object": True}}, {"json_object": True}),
        ({"guided_choice": ["yes", "no"]}, {"choices": ("yes", "no")}),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, {"choices": ("yes", "no")}),
        ({"guided_regex": "[a-z]+"}, {"pattern": "[a-z]+"}),
        ({"structured_outputs": {"regex": "[a-z]+"}}, {"pattern": "[a-z]+"}),
        ({"format": "json"}, {"json_object": True}),
        ({"format": SCHEMA}, {"json_schema": TEXT}),
        ({"format": "", "grammar": "", "json_schema": {}}, {}),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"json_schema": TEXT}),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({"response_format": {"type": "text"}, "guided_json": SCHEMA}, {"json_schema": TEXT}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": SCHEMA, "strict": True},
                }
            },
            {"json_schema": TEXT, "strict": True},
        ),
    ],
)
def test_the_form_of_an_answer(both: Any, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    seen = got(both, **fields)
    names = ("json_object", "json_schema", "grammar", "pattern", "choices", "strict")
    found = {name: getattr(seen, name) for name in names}
    assert found == dict.fromkeys(names) | {"json_object": False, "choices": (), "strict": False} | expected
    assert seen.shaped == bool(expected)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "("}, "guided_regex"),
        ({"grammar": "root"}, "grammar"),
        ({"structured_outputs": {"grammar": "root"}}, "structured_outputs.grammar"),
        ({"format": SCHEMA}, "format"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({}, "response_format"),
    ],
)
def test_an_engines_error_names_the_field_of_the_client(both: Any, fields: dict[str, Any], param: str) -> None:
    refused(both, param, "no such form", stop="bad", **fields)


@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ({"grammar": GRAMMAR, "json_schema": SCHEMA}, "grammar", "cannot stand beside json_schema"),
        ({"guided_choice": ["a"], "guided_regex": "a"}, "guided_choice", "cannot stand beside guided_regex"),
        ({"guided_choice": []}, "guided_choice", "at least one text"),
        ({"guided_choice": ["a", ""]}, "guided_choice", "none of them empty"),
        ({"guided_choice": ["a"] * 1001}, "guided_choice", "has 1001 entries; the limit is 1000"),
        ({"guided_choice": ["a" * 65_537]}, "guided_choice", "has 65537 characters; the limit is 65536"),
        ({"guided_json": "["}, "guided_json", "must be a JSON schema or the text of one"),
        ({"guided_json": "[]"}, "guided_json", "must be a JSON schema or the text of one, not a list"),
        ({"grammar": "x" * 65_537}, "grammar", "has 65537 characters; the limit is 65536"),
        ({"format": "xml"}, "format", "must be an object, not a string"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag", "not supported"),
        (
            {"response_format": {"type": "json_object", "json_schema": {}}},
            "response_format.json_schema",
            "not supported",
        ),
    ],
)
def test_a_wrong_form_is_refused(both: Any, fields: dict[str, Any], param: str, told: str) -> None:
    refused(both, param, told, **fields)


@pytest.mark.parametrize(
    ("fields", "thinking", "variables"),
    [
        ({}, None, {}),
        ({"enable_thinking": False}, False, {}),
        ({"think": True}, True, {}),
        ({"think": "low"}, True, {"reasoning_effort": "low"}),
        ({"thinking": {"type": "disabled"}}, False, {}),
        ({"thinking": {"type": "enabled"}}, True, {}),
        ({"thinking": {"type": "adaptive"}}, None, {}),
        ({"reasoning": {"effort": "none"}}, False, {}),
        ({"reasoning": {"effort": "high"}}, True, {"reasoning_effort": "high"}),
        ({"reasoning": {"enabled": False}}, False, {}),
        ({"reasoning": False}, False, {}),
        ({"reasoning_effort": "none"}, False, {}),
        ({"reasoning_effort": "medium"}, True, {"reasoning_effort": "medium"}),
        ({"reasoning_effort": "default"}, None, {}),
        ({"reasoning_effort": "medium", "enable_thinking": False}, False, {"reasoning_effort": "medium"}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False, {"enable_thinking": False}),
        ({"chat_template_kwargs": {"a": [1], "b": {"c": "é"}}}, None, {"a": [1], "b": {"c": "é"}}),
        (
            {"chat_template_kwargs": {"reasoning_effort": "high"}, "reasoning_effort": "low"},
            True,
            {"reasoning_effort": "high"},
        ),
    ],
)
def test_thoughts_are_turned_on_and_off(
    chat: Any, fields: dict[str, Any], thinking: bool | None, variables: dict[str, Any]
) -> None:
    seen = got(chat, **fields)
    assert seen.thinking is thinking
    assert json.loads(seen.variables or "{}") == variables


@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ({"think": "very"}, "think", "must be true, false or one of none"),
        ({"thinking": 3}, "thinking", "must be true, false, a level of effort or an object, not the number 3"),
        ({"reasoning": {"effort": "some"}}, "reasoning.effort", "must be one of none"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs", "must be an object, not a list"),
        ({"chat_template_kwargs": {"a": "x" * 70_000}}, "chat_template_kwargs", "the limit of an object is 65536"),
        ({"continue_final_message": True}, "continue_final_message", "needs a last message of the assistant"),
    ],
)
def test_wrong_wishes_are_refused(chat: Any, fields: dict[str, Any], param: str, told: str) -> None:
    refused(chat, param, told, **fields)


BEGUN = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one two"}]


def test_an_answer_goes_on_in_the_last_message(chat: Any) -> None:
    seen = got(chat, messages=BEGUN, continue_final_message=True)
    assert (seen.continues, seen.generation_prompt) == (True, True)
    assert not got(chat, messages=BEGUN, add_generation_prompt=False).generation_prompt
    told = "cannot stand beside add_generation_prompt"
    both = {"continue_final_message": True, "add_generation_prompt": True}
    refused(chat, "continue_final_message", told, messages=BEGUN, **both)


@pytest.mark.parametrize("stream", [False, True])
def test_an_echo_repeats_the_beginning_of_the_answer(chat: Any, stream: bool) -> None:
    fields = {"messages": BEGUN, "continue_final_message": True, "echo": True, "stream": stream}
    text = chat(**fields)[0].text
    if stream:
        chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    else:
        said = json.loads(text)["choices"][0]["message"]["content"]
    assert said == "one twoone two"


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_may_be_left_out(chat: Any, stream: bool) -> None:
    thought = [{"role": "user", "content": "<think> let me see </think> it is Paris"}]
    for wanted in (True, False):
        answer = chat(messages=thought, include_reasoning=wanted, stream=stream)[0].text
        assert ("see" in answer) == wanted
        assert "Paris" in answer


@pytest.mark.parametrize("given", [True, 0, 3])
def test_logprobs_may_be_a_number(both: Any, given: Any) -> None:
    assert got(both, logprobs=given).logprobs == int(given is not True and given)
    assert got(both, logprobs=False).logprobs is None


def test_top_logprobs_are_the_number(chat: Any) -> None:
    assert got(chat, logprobs=True, top_logprobs=4).logprobs == 4
    assert got(chat, logprobs=2, top_logprobs=4).logprobs == 4


def test_the_likeliest_answers_are_told(both: Any) -> None:
    answer, seen = both(best_of=5, n=2)
    assert len(SEEN) == 5
    assert seen.logprobs == 0
    choices = answer.json()["choices"]
    assert [one["index"] for one in choices] == [0, 1]
    assert [one["logprobs"] for one in choices] == [None, None]
    assert answer.json()["usage"]["completion_tokens"] == 15


FUNCTIONS = [{"name": "weather", "parameters": {"type": "object"}}, {"name": "clock"}]


def test_any_tool_is_a_required_one(chat: Any) -> None:
    tools = [{"type": "function", "function": one} for one in FUNCTIONS]
    assert got(chat, tools=tools, tool_choice="any").tool_choice.required
    refused(chat, "grammar", "cannot stand beside tools", tools=tools, grammar=GRAMMAR)


@pytest.mark.parametrize("stream", [False, True])
def test_functions_are_called_in_their_own_form(chat: Any, stream: bool) -> None:
    ask = [{"role": "user", "content": "clock weather {}"}]
    text = chat(messages=ask, functions=FUNCTIONS, function_call={"name": "clock"}, stream=stream)[0].text
    text = text.replace(": ", ":").replace(", ", ",")  # a stream is written without blanks
    assert '"function_call":{"name":"clock","arguments":"{}"}' in text
    assert '"finish_reason":"function_call"' in text
    assert "tool_calls" not in text
    seen = got(chat, messages=ask, functions=FUNCTIONS, function_call="auto")
    assert ([one.name for one in seen.tools], seen.tool_choice.parallel) == (["weather", "clock"], False)
    assert got(chat, messages=ask, functions=FUNCTIONS, function_call="none").tools == ()


@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ({"functions": FUNCTIONS, "function_call": "sometimes"}, "function_call", "must be auto, none or an object"),
        ({"functions": FUNCTIONS, "function_call": {"name": "gone"}}, "function_call", "names 'gone'"),
        ({"functions": [], "function_call": {"name": "gone"}}, "function_call", "needs tools to choose from"),
        ({"functions": FUNCTIONS * 2}, "functions[2].name", "'weather' is there twice"),
        (
            {"functions": FUNCTIONS, "tools": [{"type": "function", "function": {"name": "a"}}]},
            "functions",
            "beside tools",
        ),
    ],
)
def test_wrong_functions_are_refused(chat: Any, fields: dict[str, Any], param: str, told: str) -> None:
    refused(chat, param, told, **fields)


def test_a_prompt_may_leave_the_caches_alone(both: Any) -> None:
    salts = {got(both, cache_prompt=cached).salt for cached in (True, True, False, False)}
    assert len(salts) == 3


def test_fields_of_other_servers_change_nothing(both: Any) -> None:
    harmless = {"id_slot": -1, "timings_per_token": True, "return_progress": True, "store": True, "lora": []}
    assert got(both, **harmless).prompt == got(both).prompt


def test_a_stream_tells_the_progress_of_its_prompt(both: Any) -> None:
    lines = both(return_progress=True, stream=True)[0].text.splitlines()
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    told = [one["prompt_progress"] for one in chunks if "prompt_progress" in one]
    total = told[0]["total"]
    assert [(one["cache"], one["processed"]) for one in told] == [(0, 0), (0, total // 2), (0, total)]
    assert all(one["time_ms"] > 0 for one in told)
    assert "prompt_progress" not in both(return_progress=True)[0].text
    assert "prompt_progress" not in both(stream=True)[0].text


def test_a_slot_of_the_clients_choice_is_asked_for(both: Any) -> None:
    """It was ignored, with a header."""
    assert (got(both, id_slot=2).slot, got(both, id_slot=-1).slot, got(both).slot) == (2, -1, -1)
    assert "x-edgeserve-ignored" not in both(id_slot=2)[0].headers


@pytest.mark.parametrize("stream", [False, True])
def test_timings_come_with_the_end_of_an_answer(both: Any, stream: bool) -> None:
    answer, _ = both(timings_per_token=True, stream=stream)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith(("{", "data: {"))]
    told = [one["timings"] for one in map(json.loads, lines) if "timings" in one]
    assert [one["predicted_n"] > 0 and one["prompt_n"] > 0 for one in told] == [True]
    assert "timings" not in both(stream=stream)[0].text


def test_unknown_fields_are_named_in_a_header(both: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer, _ = both(colour="red", stream_options={"use": 1}, stream=True, **{"a\r\nb: c": 1})
    assert answer.status_code == 200
    assert answer.headers["x-edgeserve-ignored"] == "colour, stream_options.use, a%0D%0Ab:%20c"
    assert sum("ignored unknown fields: colour, stream_options.use" in one.message for one in caplog.records) == 1


def test_a_misspelled_name_stands_beside_the_error_about_the_missing_field(noting: Running) -> None:
    for path, name in (("/v1/chat/completions", "mesages"), ("/v1/completions", "promt")):
        answer = noting.client.post(path, json={name: "x"})
        assert (answer.status_code, answer.headers["x-edgeserve-ignored"]) == (400, name)


def test_the_header_of_unknown_fields_is_bounded(both: Any) -> None:
    answer, _ = both(**{f"é{number}" * 40: 1 for number in range(100)})
    assert answer.status_code == 200
    assert len(answer.headers["x-edgeserve-ignored"]) < 2_200
    assert answer.headers["x-edgeserve-ignored"].endswith(", ...")


@pytest.mark.parametrize("stream", [False, True])
def test_keywords_that_an_answer_may_break_are_named_in_a_header(both: Any, stream: bool) -> None:
    answer, _ = both(stop="loose", stream=stream, n=2)
    told = "response_format:%20uniqueItems%20at%20a/%C3%A9%2C%20b, response_format:%20not"
    assert answer.headers["x-edgeserve-loosened"] == told
    assert "uniqueItems" not in answer.text
