"""Tools end to end on a small model that was never taught them, and in templates that were."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.contract import ask
from support.hot import hot
from support.schemas import thing
from support.turns import counted_calls

from edgeserve.engine import ModelSpec
from edgeserve.engines.grammar.rules import Rules
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.constraint import Constraint
from edgeserve.engines.llama.grammar import Grammar, grammar
from edgeserve.engines.llama.runtime import llama
from edgeserve.engines.llama.template import ChatTemplate
from edgeserve.engines.llama.tools import TAGGED, CallForm, described
from edgeserve.errors import InvalidRequest
from edgeserve.messages import (
    ChatEvent,
    FinishEvent,
    Message,
    Sampling,
    TextPart,
    TokenEvent,
    Tool,
    ToolCall,
    ToolCallEvent,
    ToolChoice,
)

Pulled = Callable[[str], Mapping[str, Path]]

PLACE = thing(city={"type": "string", "enum": ["Paris", "Rome"]}, days={"type": "integer", "minimum": 1, "maximum": 9})
WEATHER = Tool("weather", "The weather of the coming days", json.dumps(PLACE))
CLOCK = Tool("clock", "The time")
SCHEMAS = {tool.name: json.loads(tool.parameters) for tool in (WEATHER, CLOCK)}

HERMES = (
    "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}'
    "{% if m.role == 'tool' %}[{{ m.name }}]{% endif %}{% endfor %}"
)
HISTORY = (
    Message("user", (TextPart("Rain?"),)),
    Message("assistant", (), (ToolCall("weather", '{"city": "Rome"}', "c1"), ToolCall("clock", "{}", "c2"))),
    Message("tool", (TextPart("sunny"),), tool_call_id="c1"),
    Message("tool", (TextPart("noon"),), tool_call_id="c2"),
)


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    with hot(LlamaChat(ModelSpec("llm", "smollm2", "x", files, threads=1, options={"context": 1024}))) as engine:
        yield engine


def answer(engine: LlamaChat, **settings: Any) -> list[ChatEvent]:
    settings = {"tools": (WEATHER, CLOCK), "max_tokens": 200, "sampling": Sampling(temperature=0.0)} | settings
    request = ask("What is the weather in Rome for three days?", **settings)
    return list(engine.chat(request, threading.Event()))


@pytest.mark.models
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", [ToolChoice(required=True), ToolChoice(required=True, parallel=False)])
def test_a_required_call_is_always_valid(engine: LlamaChat, choice: ToolChoice, seed: int) -> None:
    sampling = Sampling(temperature=3.0, seed=seed, top_k=0, top_p=1.0, min_p=0.0)
    *calls, finish = answer(engine, tool_choice=choice, sampling=sampling)
    assert isinstance(finish, FinishEvent)
    assert finish.reason == "tool_calls"
    assert 1 <= len(calls) <= (8 if choice.parallel else 1)
    for event in calls:
        assert isinstance(event, ToolCallEvent)
        jsonschema.validate(json.loads(event.call.arguments), SCHEMAS[event.call.name])


@pytest.mark.models
def test_a_named_tool_is_the_one_called(engine: LlamaChat) -> None:
    event, finish = answer(engine, tool_choice=ToolChoice(required=True, name="weather", parallel=False))
    assert isinstance(event, ToolCallEvent)
    assert event.call.name == "weather"
    assert json.loads(event.call.arguments)["city"] in ("Paris", "Rome")
    assert isinstance(finish, FinishEvent)
    assert finish.reason == "tool_calls"


@pytest.mark.models
def test_a_call_cut_by_the_limit_is_text(engine: LlamaChat) -> None:
    *tokens, finish = answer(engine, tool_choice=ToolChoice(required=True), max_tokens=4)
    assert isinstance(finish, FinishEvent)
    assert finish.reason == "length"
    assert "".join(one.text for one in tokens if isinstance(one, TokenEvent)).startswith('{"name": "')


@pytest.mark.models
def test_free_text_with_tools_streams_as_without(engine: LlamaChat) -> None:
    """The little model does not call by itself; were it to, it would have to be a whole call."""
    *events, finish = answer(engine, max_tokens=40)
    calls = [one for one in events if isinstance(one, ToolCallEvent)]
    assert isinstance(finish, FinishEvent)
    assert (finish.reason == "tool_calls") == bool(calls)
    assert calls or len(events) > 5


CHATML = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}{% for m in messages %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
"""A template that teaches calls in tags, by the model's own marks."""


def asked_before(*questions: tuple[str, int]) -> Iterator[Message]:
    """A conversation that shows how calls are made, and leads to one more."""
    for number, (city, days) in enumerate(questions):
        yield Message("user", (TextPart(f"What is the weather in {city} for {days} days?"),))
        call = ToolCall("weather", json.dumps({"city": city, "days": days}), f"c{number}")
        yield Message("assistant", (), (call,))
        yield Message("tool", (TextPart("sunny"),), tool_call_id=call.id)
    yield Message("user", (TextPart("What is the weather in Rome for three days?"),))


@pytest.fixture(params=["plain", "tagged"])
def taught(engine: LlamaChat, request: pytest.FixtureRequest) -> Iterator[LlamaChat]:
    assert engine._model is not None
    if request.param == "tagged":
        engine._template = ChatTemplate(CHATML, *engine._model.bos_eos())
    yield engine
    engine._template = None


@pytest.mark.models
@pytest.mark.parametrize("parallel", [True, False])
def test_a_call_that_the_model_begins_is_always_valid(taught: LlamaChat, parallel: bool) -> None:
    """So hot that nothing but the grammar keeps it in order, once biases have made it begin."""
    assert taught._model is not None
    form = taught._chat_template(taught._model).form
    begun = taught._model.tokenize((form.opening.strip() or '{"name"'), add_special=False)
    bias = tuple(dict.fromkeys((token, 9.0) for token in begun))
    calls = 0
    for seed in range(2):
        wild = Sampling(temperature=1.5, seed=seed, top_k=0, top_p=1.0, min_p=0.0, logit_bias=bias)
        choice = ToolChoice(parallel=parallel)
        request = ask("", tools=(WEATHER, CLOCK), max_tokens=120, sampling=wild, tool_choice=choice)
        request = dataclasses.replace(request, messages=tuple(asked_before(("Paris", 2), ("Rome", 5))))
        *events, finish = taught.chat(request, threading.Event())
        assert isinstance(finish, FinishEvent)
        made = [event.call for event in events if isinstance(event, ToolCallEvent)]
        for call in made:
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
        text = "".join(event.text for event in events if isinstance(event, TokenEvent))
        assert finish.reason == "length" or "<tool_call>" not in text
        assert len(made) <= (8 if parallel else 1)
        calls += len(made)
    assert calls


CALL = '{"name": "weather", "arguments": {"city": "Rome", "days": 3}}'
LOOSE = '{ "name" :\n"clock" , "arguments":{ } }'


@pytest.mark.models
@pytest.mark.parametrize(
    ("form", "text", "refused"),
    [
        (TAGGED, "Free é 日本 <b> <tool </tool_call> {}", None),
        (TAGGED, f"Sure. <tool_call>\n{CALL}\n</tool_call>", None),
        (TAGGED, f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>\n", None),
        (TAGGED, f"<tool_call>{CALL}</tool_call> and", " and"),
        (TAGGED, f"<tool_call>{CALL.replace('Rome', 'Oslo')}</tool_call>", "Os"),
        (TAGGED, "<<tool_call>weather()", "weather"),
        (TAGGED, "<think>I could say <tool_call> here</think>Fine", None),
        (TAGGED, "<think>No.</think><tool_call>here", "here"),
        (CallForm(), CALL, None),
        (CallForm(), f"\n {CALL}\n{CALL}", None),
        (CallForm(), LOOSE.replace("{ }", "{}"), None),
        (CallForm(), '{"name": "Bob"}', "Bob"),
        (CallForm(), f"{CALL} and", " and"),
        (CallForm(), f"<think>So.</think>\n{CALL}x", "x"),
        (CallForm(), '{"names": {"name": "Bob"}}', None),
        (CallForm(), 'I say {"name": "Bob"}', None),
        (CallForm(), '{"na', None),
        (CallForm(key="parameters"), CALL, "arguments"),
    ],
)
def test_what_may_be_said_freely_and_what_not(
    engine: LlamaChat, form: CallForm, text: str, refused: str | None
) -> None:
    assert engine._model is not None
    rules = grammar(ask("Hi", tools=(WEATHER, CLOCK)), form)
    assert rules is not None
    constraint = Constraint(str(rules.rules), engine._model.vocabulary)
    end = llama().llama_vocab_eos(engine._model.vocabulary)
    try:
        for token in [*engine._model.tokenize(text, add_special=False), end]:
            if not constraint.allows(token):
                assert engine._model.piece(token).decode() == refused
                return
            constraint.accept(token)
        assert refused is None
    finally:
        constraint.free()


@pytest.mark.models
@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"temperature": 1.3, "seed": 3, "top_k": 0}])
def test_free_text_is_what_it_would_be_without_a_grammar(
    engine: LlamaChat, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Both from the same state: a prompt that is read again is read in one token, which may round otherwise."""

    def text() -> str:
        events = answer(engine, max_tokens=20, sampling=Sampling(**settings))
        return "".join(event.text for event in events if isinstance(event, TokenEvent))

    text()
    held = text()
    monkeypatch.setattr("edgeserve.engines.llama.grammar.grammar", lambda *ignored, **too: None)
    assert text() == held
    assert held


def test_what_no_grammar_can_hold_is_free_where_no_call_is_required() -> None:
    odd = Tool("odd", "", '{"type":"object","properties":{"x":{"$ref": "elsewhere"}}}')
    made = grammar(ask("Hi", tools=(WEATHER, odd)), TAGGED)
    assert made is not None
    assert 'r0 ":" r0 object' in str(made.rules)
    assert made.loosened == ()
    long = (thing(x={"type": "string", "maxLength": 1900 + number}) for number in range(20))
    together = tuple(Tool(f"t{number}", "", json.dumps(one)) for number, one in enumerate(long))
    assert grammar(ask("Hi", tools=together[:3]), TAGGED) is not None
    assert grammar(ask("Hi", tools=together), TAGGED) is None


@pytest.mark.models
def test_results_reach_a_template_without_tools(engine: LlamaChat) -> None:
    assert engine._model is not None
    request = dataclasses.replace(ask(""), messages=HISTORY, tools=(WEATHER,))
    prompt = engine.prompt(engine._model, request)
    assert '{"name": "weather", "arguments": {"city": "Rome"}}\n{"name": "clock", "arguments": {}}' in prompt
    assert "<|im_start|>user\nResult of weather: sunny\nResult of clock: noon<|im_end|>" in prompt
    assert prompt.count("The weather of the coming days") == 1


def test_a_template_with_tools_gets_them_as_it_wants_them() -> None:
    template = ChatTemplate(HERMES, "", "")
    assert template.form == TAGGED
    prompt = template.render(HISTORY, tools=(CLOCK,))
    assert '<tools>{"type": "function", "function": {"name": "clock", "description": "The time"' in prompt
    assert '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>' in prompt
    assert prompt.endswith("<tool>sunny[weather]<tool>noon[clock]")
    assert "<tools>" not in template.render(HISTORY)


def test_llama_3_says_parameters() -> None:
    source = '{% if tools %}Respond with {"name": …, "parameters": dictionary}{% endif %}'
    assert ChatTemplate(source, "", "").form == CallForm(key="parameters")
    assert ChatTemplate("{{ messages }} <tool_call>", "", "").form == CallForm()


def test_grammars_are_for_what_must_be() -> None:
    free = ask("Hi", tools=(WEATHER,))
    assert grammar(ask("Hi"), TAGGED) is None
    forced = grammar(dataclasses.replace(free, tool_choice=ToolChoice(required=True)), TAGGED)
    assert forced is not None
    assert r'"<tool_call>\n"' in str(forced.rules)
    both = grammar(dataclasses.replace(free, json_schema='{"const": "said"}'), CallForm())
    assert both is not None
    assert r'"\"said\""' in str(both.rules)
    assert "weather" in str(both.rules)
    assert grammar(ask("Hi", json_object=True), TAGGED) == Grammar(Rules().text("object"))


def test_a_tool_that_cannot_be_held_to_is_named() -> None:
    bad = Tool("bad", "", '{"type":"object","properties":{"x":{"not":{}, "if": {"a": 1}}}}', strict=True)
    for choice in (ToolChoice(required=True), ToolChoice()):
        request = ask("Hi", tools=(CLOCK, bad), tool_choice=choice)
        with pytest.raises(InvalidRequest, match=r"at 'properties/x' uses if") as caught:
            grammar(request, CallForm())
        assert caught.value.param == "tools[1].function.parameters"
        loose = dataclasses.replace(request, tools=(CLOCK, dataclasses.replace(bad, strict=False)))
        made = grammar(loose, CallForm())
        assert made is not None
        assert made.loosened == ("tools[1].function.parameters: if at properties/x",)


def test_thousands_of_results_are_told_in_one_go() -> None:
    """Copying all earlier results for each takes minutes, and no other request is prepared meanwhile."""
    call = Message("assistant", (), (ToolCall("look", "{}", "c"),))
    made: list[int] = []
    for count in (2, 2_000):
        results = [Message("tool", (TextPart(str(index)),), tool_call_id="c") for index in range(count)]
        with counted_calls(lambda frame: frame.f_code is Message.__init__.__code__) as messages:
            turns = described([call, *results], (), several=True)
            made.append(messages())
        assert [turn.role for turn in turns] == ["assistant", "user"]
        assert turns[1].text.splitlines()[:2] == ["Result of look: 0", "Result of look: 1"]
        assert turns[1].text.count("Result of look") == count
    assert made == [2, 2], "one message holds all results, however many they are"
