"""OpenAI's own client on Responses, and OpenAI's Agents SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="make clients installs openai")
agents = pytest.importorskip("agents", reason="make clients installs openai-agents")
pydantic = pytest.importorskip("pydantic", reason="make clients installs openai, which needs pydantic")

MODEL = "smollm2-135m-instruct"
ASKED = "Name a bird in one word."
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


def shows(feature: str) -> Any:
    return pytest.mark.client("openai", f"responses: {feature}")


def agent_shows(feature: str) -> Any:
    return pytest.mark.client("openai-agents", feature)


@pytest.fixture(scope="module")
def ai(base_url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


@shows("create")
def test_create(ai: Any) -> None:
    answer = ai.responses.create(model="gpt-5", input=ASKED, max_output_tokens=16, instructions="Be short.")
    assert answer.output_text
    assert answer.model == MODEL
    assert answer.status in ("completed", "incomplete")
    assert 0 < answer.usage.output_tokens <= 16
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


@shows("stream")
def test_stream(ai: Any) -> None:
    with ai.responses.stream(model=MODEL, input="Say hello.", temperature=0) as events:
        told = list(events)
        final = events.get_final_response()
    said = "".join(one.delta for one in told if one.type == "response.output_text.delta")
    assert said == final.output_text != ""
    assert [one.sequence_number for one in told] == list(range(len(told)))
    kinds = [one.type for one in ai.responses.create(model=MODEL, input=ASKED, stream=True, max_output_tokens=8)]
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.completed", "response.incomplete")


@shows("parse")
def test_parse(ai: Any) -> None:
    class Bird(pydantic.BaseModel):
        name: str
        legs: int

    answer = ai.responses.parse(model=MODEL, input=ASKED, text_format=Bird, max_output_tokens=128, temperature=0)
    assert isinstance(answer.output_parsed, Bird)


@shows("calls")
def test_calls(ai: Any) -> None:
    asked = "How is the weather in Paris?"
    first = ai.responses.create(
        model=MODEL, input=asked, tools=[TOOL], tool_choice="required", max_output_tokens=64, temperature=0
    )
    call = next(one for one in first.output if one.type == "function_call")
    assert call.name == "weather"
    assert "city" in json.loads(call.arguments)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    by_id = ai.responses.create(model=MODEL, previous_response_id=first.id, input=[result], max_output_tokens=16)
    whole = [{"role": "user", "content": asked}, *(one.to_dict() for one in first.output), result]
    by_items = ai.responses.create(model=MODEL, input=whole, max_output_tokens=16, store=False)
    assert by_id.usage.input_tokens == by_items.usage.input_tokens
    assert by_items.usage.input_tokens_details.cached_tokens > 0


@shows("stored responses")
def test_stored(ai: Any) -> None:
    first = ai.responses.create(model=MODEL, input="My name is Ada.", max_output_tokens=8)
    second = ai.responses.create(model=MODEL, input="And now?", previous_response_id=first.id, max_output_tokens=8)
    assert second.usage.input_tokens > first.usage.input_tokens
    assert ai.responses.retrieve(second.id).output_text == second.output_text
    assert len(list(ai.responses.input_items.list(second.id))) == 3
    counted = ai.responses.input_tokens.count(model=MODEL, input="And now?", previous_response_id=first.id)
    assert counted.input_tokens == second.usage.input_tokens
    ai.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        ai.responses.create(model=MODEL, input="Hm?", previous_response_id=first.id)
    assert caught.value.code == "previous_response_not_found"
    with pytest.raises(openai.BadRequestError):
        ai.responses.cancel(second.id)


@pytest.fixture
def model(base_url: str) -> Any:
    """A model of the SDK, whose client belongs to one event loop."""
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    return agents.OpenAIResponsesModel(model=MODEL, openai_client=client)


@agent_shows("runs")
def test_an_agent_runs(model: Any) -> None:
    settings = agents.ModelSettings(temperature=0, max_tokens=512)
    agent = agents.Agent(name="birds", instructions="Be short.", model=model, model_settings=settings)
    result = agents.Runner.run_sync(agent, "Say hello.")
    assert result.final_output
    again = agents.Runner.run_sync(agent, "Say it again.", previous_response_id=result.last_response_id)
    assert again.final_output
    assert again.raw_responses[0].usage.input_tokens > result.raw_responses[0].usage.input_tokens


@agent_shows("streamed tools")
def test_an_agent_calls_a_tool(model: Any) -> None:
    asked: list[str] = []

    @agents.function_tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"It rains in {city}."

    settings = agents.ModelSettings(temperature=0, max_tokens=512, tool_choice="required")
    agent = agents.Agent(
        name="weather", model=model, tools=[weather], model_settings=settings, tool_use_behavior="stop_on_first_tool"
    )  # a model this small would call it again and again

    async def run() -> tuple[Any, list[str]]:
        result = agents.Runner.run_streamed(agent, "How is the weather in Paris?")
        kinds = [event.type async for event in result.stream_events()]
        return result, kinds

    result, kinds = asyncio.run(run())
    assert result.final_output == f"It rains in {asked[0]}."
    assert "run_item_stream_event" in kinds
