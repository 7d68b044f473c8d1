"""LiteLLM, as a library."""

from __future__ import annotations

from typing import Any

import pytest

litellm = pytest.importorskip("litellm", reason="make clients installs litellm")
QUESTION: Any = [{"role": "user", "content": "Name a bird in one word."}]


def shows(feature: str) -> Any:
    return pytest.mark.client("litellm", feature)


@shows("chat")
@pytest.mark.parametrize("model", ["openai/gpt-4o", "hosted_vllm/smollm2"])
def test_chat(base_url: str, model: str) -> None:
    answer = litellm.completion(model=model, messages=QUESTION, api_base=base_url, api_key="none", max_tokens=16)
    assert answer.choices[0].message.content


@shows("streams")
def test_stream(base_url: str) -> None:
    events = litellm.completion(
        model="openai/gpt-4o", messages=QUESTION, api_base=base_url, api_key="none", max_tokens=16, stream=True
    )
    assert "".join(one.choices[0].delta.content or "" for one in events)


@shows("embeddings")
def test_embeddings(base_url: str) -> None:
    answer = litellm.embedding(
        model="openai/text-embedding-3-small", input=["a heron"], api_base=base_url, api_key="none"
    )
    assert len(answer.data[0]["embedding"]) > 100


@shows("transcription")
def test_transcription(base_url: str) -> None:
    here: Any = {"api_base": base_url, "api_key": "none"}
    spoken = litellm.speech(model="openai/tts-1", voice="alloy", input="Good morning.", response_format="wav", **here)
    heard = litellm.transcription(model="openai/whisper-1", file=("a.wav", spoken.content), **here)
    assert "morning" in heard.text.lower()
