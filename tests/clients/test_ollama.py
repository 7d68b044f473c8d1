"""Ollama's own package for Python."""

from __future__ import annotations

from typing import Any

import pytest

ollama = pytest.importorskip("ollama", reason="make clients installs ollama")
pydantic = pytest.importorskip("pydantic", reason="make clients installs ollama, which needs pydantic")

MODEL = "smollm2-135m-instruct"
ASKED = [{"role": "user", "content": "Name a bird in one word."}]
SHORT = {"num_predict": 24, "temperature": 0}


def shows(feature: str) -> Any:
    return pytest.mark.client("ollama", feature)


@pytest.fixture(scope="module")
def client(address: str) -> Any:
    return ollama.Client(host=address)


@shows("chat")
def test_chat(client: Any) -> None:
    answer = client.chat(MODEL, ASKED, options=SHORT, keep_alive="5m")
    assert answer.message.content
    assert (answer.model, answer.done) == (MODEL, True)
    assert answer.done_reason in ("stop", "length")
    assert answer.eval_count > 0
    assert answer.prompt_eval_count > 0
    assert answer.total_duration >= answer.eval_duration > 0


@shows("streams")
def test_stream(client: Any) -> None:
    parts = list(client.chat(MODEL, ASKED, options=SHORT, stream=True))
    assert "".join(one.message.content for one in parts)
    assert [one.done for one in parts] == [False] * (len(parts) - 1) + [True]


@shows("completions")
def test_generate(client: Any) -> None:
    first = client.generate(MODEL, "Name a bird in one word.", options=SHORT)
    assert first.response
    again = client.generate(MODEL, "And another one.", context=first.context, options=SHORT)
    assert again.prompt_eval_count > first.prompt_eval_count
    raw = client.generate(MODEL, "One, two, three, four,", raw=True, options=SHORT)
    assert "five" in raw.response
    assert raw.context is None
    parts = client.generate(MODEL, "Name a bird.", options=SHORT, stream=True)
    assert "".join(one.response for one in parts)


@shows("tools")
def test_tools(client: Any) -> None:
    def weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: name of the city
        """
        return f"rain in {city}"

    form = {
        "type": "object",
        "required": ["name", "arguments"],
        "properties": {"name": {"const": "weather"}, "arguments": {"type": "object"}},
    }
    answer = client.chat(MODEL, ASKED, tools=[weather], format=form, options=SHORT | {"num_predict": 64})
    for call in answer.message.tool_calls or ():
        assert call.function.name == "weather"
        assert isinstance(call.function.arguments, dict)
    history = [
        *ASKED,
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}]},
        {"role": "tool", "content": "rain", "tool_name": "weather"},
    ]
    assert client.chat(MODEL, history, tools=[weather], options=SHORT).message.content is not None


@shows("structured output")
def test_structured(client: Any) -> None:
    class Bird(pydantic.BaseModel):
        name: str
        wings: int

    answer = client.chat(MODEL, ASKED, format=Bird.model_json_schema(), options={"num_predict": 64, "temperature": 0})
    assert Bird.model_validate_json(answer.message.content).name is not None


@shows("embeddings")
def test_embed(client: Any) -> None:
    answer = client.embed(MODEL, ["a heron", "a stork"], dimensions=64)
    assert [len(one) for one in answer.embeddings] == [64, 64]
    assert client.embeddings(MODEL, "a heron").embedding


@shows("models")
def test_lists(client: Any) -> None:
    client.generate(MODEL, keep_alive=-1)
    listed = next(one for one in client.list().models if one.model == f"{MODEL}:latest")
    assert listed.details.format == "gguf"
    assert listed.details.quantization_level == "Q4_1"
    assert listed.size > 90_000_000
    running = next(one for one in client.ps().models if one.model == f"{MODEL}:latest")
    assert running.expires_at.year > 2200
    assert running.context_length > 0
    shown = client.show(MODEL)
    assert shown.modelinfo["general.architecture"] == "llama"
    assert "completion" in shown.capabilities
    assert shown.template


@shows("loading and unloading")
def test_moves(client: Any) -> None:
    assert client.generate(MODEL, keep_alive="10m").done_reason == "load"
    assert client.chat(MODEL, keep_alive=0).done_reason == "unload"
    assert f"{MODEL}:latest" not in [one.model for one in client.ps().models]


@shows("pulls")
def test_pull(client: Any) -> None:
    assert client.pull(MODEL).status == "success"
    assert [one.status for one in client.pull(f"{MODEL}:latest", stream=True)][-1] == "success"
    with pytest.raises(ollama.ResponseError, match="pull model manifest: file does not exist") as caught:
        client.pull("no-such-model")
    assert caught.value.status_code == 404


@shows("errors")
def test_errors(client: Any) -> None:
    with pytest.raises(ollama.ResponseError, match="not found") as caught:
        client.show("no-such-model")
    assert caught.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat(MODEL, ASKED, think=True)
    with pytest.raises(ollama.ResponseError, match="not supported by this server"):
        client.copy(MODEL, "mine")
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.delete("no-such-model")


@shows("async")
def test_async(address: str) -> None:
    import asyncio

    async def ask() -> str:
        parts = await ollama.AsyncClient(host=address).chat(MODEL, ASKED, options=SHORT, stream=True)
        return "".join([one.message.content async for one in parts])

    assert asyncio.run(ask())
