"""OpenAI's own client."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="make clients installs openai")
pydantic = pytest.importorskip("pydantic", reason="make clients installs openai, which needs pydantic")

QUESTION: Any = [{"role": "user", "content": "Name a bird in one word."}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def shows(feature: str) -> Any:
    return pytest.mark.client("openai", feature)


@pytest.fixture(scope="module")
def ai(base_url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


@shows("chat")
def test_chat(ai: Any) -> None:
    answer = ai.chat.completions.create(model="gpt-4o", messages=QUESTION, max_completion_tokens=16)
    assert answer.choices[0].message.content
    assert answer.model == "smollm2-135m-instruct"
    assert answer.usage.completion_tokens <= 16


@shows("streams")
def test_stream(ai: Any) -> None:
    usage = {"include_usage": True}
    with ai.chat.completions.create(
        model="gpt-4o-mini", messages=QUESTION, stream=True, max_tokens=16, stream_options=usage
    ) as events:
        *chunks, last = events
    assert "".join(one.choices[0].delta.content or "" for one in chunks)
    assert last.usage.prompt_tokens > 0
    with ai.chat.completions.stream(model="llm", messages=QUESTION, temperature=0, stop=[".", "\n"]) as stream:
        assert stream.get_final_completion().choices[0].message.content


@shows("tools")
def test_tools(ai: Any) -> None:
    asked = [{"role": "user", "content": "How is the weather in Paris?"}]
    answer = ai.chat.completions.create(
        model="gpt-4o", messages=asked, tools=[TOOL], tool_choice="required", max_tokens=64, temperature=0
    )
    (call, *_) = answer.choices[0].message.tool_calls
    assert call.function.name == "weather"
    back = [*asked, answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    last = ai.chat.completions.create(model="gpt-4o", messages=back, tools=[TOOL], max_tokens=16)
    assert last.choices[0].message.role == "assistant"


@shows("structured output")
def test_parse(ai: Any) -> None:
    class Bird(pydantic.BaseModel):
        name: str
        legs: int

    answer = ai.chat.completions.parse(model="gpt-4o", messages=QUESTION, response_format=Bird, max_tokens=128)
    assert isinstance(answer.choices[0].message.parsed, Bird)


@shows("completions")
def test_completions(ai: Any) -> None:
    answer = ai.completions.create(model="gpt-3.5-turbo-instruct", prompt="Birds can", max_tokens=8)
    assert answer.choices[0].text


@shows("embeddings")
def test_embeddings(ai: Any) -> None:
    answer = ai.embeddings.create(model="text-embedding-3-small", input=["a heron", "a stork"], dimensions=16)
    assert [len(one.embedding) for one in answer.data] == [16, 16]


@shows("speech")
def test_speech(ai: Any) -> None:
    spoken = ai.audio.speech.create(model="tts-1", voice="alloy", input="Good morning.", response_format="wav")
    assert spoken.content[:4] == b"RIFF"
    streaming = ai.audio.speech.with_streaming_response
    with streaming.create(model="gpt-4o-mini-tts", voice="nova", input="Good day.") as told:
        assert sum(map(len, told.iter_bytes())) > 1000


@shows("transcription")
def test_transcription(ai: Any) -> None:
    spoken = ai.audio.speech.create(
        model="tts-1", voice="alloy", input="Herons stand in shallow water.", response_format="wav"
    )
    sound = io.BytesIO(spoken.content)
    sound.name = "heron.wav"
    heard = ai.audio.transcriptions.create(model="whisper-1", file=sound, language="en-US")
    assert "water" in heard.text.lower()
    events = ai.audio.transcriptions.create(model="gpt-4o-transcribe", file=("heron.wav", spoken.content), stream=True)
    assert [one.type for one in events][-1] == "transcript.text.done"


@shows("models")
def test_models(ai: Any) -> None:
    assert "smollm2-135m-instruct" in [one.id for one in ai.models.list()]
    assert ai.models.retrieve("gpt-4o").id == "smollm2-135m-instruct"


@shows("errors")
def test_errors(ai: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ai.chat.completions.create(model="gpt-4o", messages=QUESTION, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        ai.chat.completions.create(model="whisper-1", messages=QUESTION)
