"""LangChain's package for Ollama."""

from __future__ import annotations

from typing import Any

import pytest

langchain_ollama = pytest.importorskip("langchain_ollama", reason="make clients installs langchain-ollama")
pydantic = pytest.importorskip("pydantic", reason="make clients installs langchain-ollama, which needs pydantic")

MODEL = "smollm2-135m-instruct"


def shows(feature: str) -> Any:
    return pytest.mark.client("langchain-ollama", feature)


@pytest.fixture(scope="module")
def chat(address: str) -> Any:
    return langchain_ollama.ChatOllama(
        model=MODEL, base_url=address, num_predict=48, temperature=0, validate_model_on_init=True, keep_alive="5m"
    )


@shows("chat")
def test_chat(chat: Any) -> None:
    answer = chat.invoke("Name a bird in one word.")
    assert answer.content
    assert answer.usage_metadata["output_tokens"] > 0
    assert answer.response_metadata["done_reason"] in ("stop", "length")


@shows("streams")
def test_stream(chat: Any) -> None:
    assert "".join(one.content for one in chat.stream("Name a bird in one word."))


@shows("tools")
def test_tools(chat: Any) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    def weather(city: str) -> str:
        """The weather of a city."""
        return city

    bound = chat.bind_tools([weather])
    called = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": "call_1"}])
    history = [HumanMessage("How is the weather in Paris?"), called, ToolMessage("rain", tool_call_id="call_1")]
    assert bound.invoke(history).content is not None
    for one in bound.invoke("Call weather for Paris.").tool_calls:
        assert isinstance(one["args"], dict)


@shows("structured output")
def test_structured(chat: Any) -> None:
    class Bird(pydantic.BaseModel):
        """A bird."""

        name: str

    assert isinstance(chat.with_structured_output(Bird, method="json_schema").invoke("Name a bird."), Bird)


@shows("embeddings")
def test_embeddings(address: str) -> None:
    made = langchain_ollama.OllamaEmbeddings(model=MODEL, base_url=address)
    assert len(made.embed_documents(["a heron", "a stork"])) == 2


@shows("completions")
def test_completions(address: str) -> None:
    made = langchain_ollama.OllamaLLM(model=MODEL, base_url=address, num_predict=16, temperature=0)
    assert made.invoke("Name a bird in one word.")
