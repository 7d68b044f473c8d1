"""LangChain's package for OpenAI."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

langchain_openai = pytest.importorskip("langchain_openai", reason="make clients installs langchain-openai")
pydantic = pytest.importorskip("pydantic", reason="make clients installs langchain-openai, which needs pydantic")


def shows(feature: str) -> Any:
    return pytest.mark.client("langchain-openai", feature)


@pytest.fixture(scope="module")
def chat(base_url: str) -> Any:
    return langchain_openai.ChatOpenAI(
        model="gpt-4o", base_url=base_url, api_key="none", max_retries=0, max_tokens=64, temperature=0
    )


@shows("chat")
def test_chat(chat: Any) -> None:
    assert chat.invoke("Name a bird in one word.").content


@shows("streams")
def test_stream(chat: Any) -> None:
    assert "".join(one.content for one in chat.stream("Name a bird in one word."))


@shows("tools")
def test_tools(chat: Any) -> None:
    def weather(city: str) -> str:
        """The weather of a city."""
        return city

    told = chat.bind_tools([weather], tool_choice="any").invoke("How is the weather in Paris?")
    assert next(one["name"] for one in told.tool_calls) == "weather"


@shows("structured output")
def test_structured(chat: Any) -> None:
    class Bird(pydantic.BaseModel):
        """A bird."""

        name: str

    assert isinstance(chat.with_structured_output(Bird).invoke("Name a bird."), Bird)


@shows("embeddings")
def test_embeddings(base_url: str) -> None:
    made = langchain_openai.OpenAIEmbeddings(
        model="text-embedding-3-small", base_url=base_url, api_key="none", check_embedding_ctx_length=False
    )
    assert len(made.embed_documents(["a heron", "a stork"])) == 2


@shows("settings of edgeserve launch")
def test_the_settings_that_launch_prints(launched: Callable[[str], str]) -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=launched("langchain"), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
