"""Realtime clients: OpenAI's own, and the Agents SDK's."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="make clients installs openai")

QUESTION = "What is the capital of France?"
STEP = 4_800
"""Bytes of a tenth of a second."""
SECONDS = 120


def shows(client: str, feature: str) -> Any:
    return pytest.mark.client(client, feature)


@pytest.fixture(scope="module")
def question(address: str) -> bytes:
    """The question as the server's own voice says it, with silence behind it: 16 bits, 24 kHz."""
    body = json.dumps({"input": QUESTION, "response_format": "pcm"}).encode()
    with urllib.request.urlopen(f"{address}/v1/audio/speech", body, timeout=SECONDS) as answer:
        return bytes(24_000) + answer.read() + bytes(48_000)


async def until(connection: Any, *kinds: str) -> list[Any]:
    """Events up to the first of these types."""
    events: list[Any] = []
    async with asyncio.timeout(SECONDS):
        async for event in connection:
            events.append(event)
            if event.type in kinds:
                return events
    raise AssertionError(f"the connection ended after {[one.type for one in events]}")


def client(base_url: str) -> Any:
    return openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)


@shows("openai", "realtime")
def test_a_spoken_conversation(base_url: str, question: bytes) -> None:
    async def talk() -> list[Any]:
        async with client(base_url).realtime.connect(model="gpt-realtime") as connection:
            await until(connection, "session.created")
            settings = {
                "type": "realtime",
                "instructions": "Answer in one short sentence.",
                "max_output_tokens": 60,
                "audio": {"input": {"transcription": {"model": "whisper-1"}}},
            }
            await connection.session.update(session=settings)
            await until(connection, "session.updated")
            for at in range(0, len(question), STEP):
                sound = base64.b64encode(question[at : at + STEP]).decode()
                await connection.input_audio_buffer.append(audio=sound)
            return await until(connection, "response.done")

    events = asyncio.run(talk())
    words = [one.transcript for one in events if one.type.endswith("input_audio_transcription.completed")]
    assert "capital of France" in words[0]
    assert sum(len(one.delta) for one in events if one.type == "response.output_audio.delta") > 10_000
    done = events[-1].response
    assert done.status in ("completed", "incomplete")
    assert done.output[0].content[0].transcript
    assert all(type(one).__name__ != "BaseModel" for one in events)


@shows("openai", "realtime text")
def test_a_conversation_in_text(base_url: str) -> None:
    async def talk() -> list[Any]:
        async with client(base_url).realtime.connect(model="gpt-realtime") as connection:
            message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}
            await connection.conversation.item.create(item=message)
            await connection.response.create(response={"output_modalities": ["text"], "max_output_tokens": 30})
            return await until(connection, "response.done")

    events = asyncio.run(talk())
    assert "".join(one.delta for one in events if one.type == "response.output_text.delta")
    assert events[-1].response.usage.output_tokens > 0


@shows("openai", "realtime transcription")
def test_a_transcription_session(base_url: str, question: bytes) -> None:
    async def talk() -> list[Any]:
        async with client(base_url).realtime.connect(extra_query={"intent": "transcription"}) as connection:
            await connection.session.update(session={"type": "transcription"})
            await connection.input_audio_buffer.append(audio=base64.b64encode(question).decode())
            return await until(connection, "conversation.item.input_audio_transcription.completed")

    assert "capital of France" in asyncio.run(talk())[-1].transcript


@shows("openai-agents", "realtime")
def test_the_agents_sdk(address: str, question: bytes) -> None:
    realtime = pytest.importorskip("agents.realtime", reason="make clients installs openai-agents")

    async def talk() -> list[Any]:
        agent = realtime.RealtimeAgent(name="Guide", instructions="Answer in one short sentence.")
        settings = {
            "model_name": "gpt-realtime",
            "input_audio_transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "server_vad", "interrupt_response": True},
        }
        runner = realtime.RealtimeRunner(agent, config={"model_settings": settings, "tracing_disabled": True})
        url = f"{address.replace('http', 'ws', 1)}/v1/realtime?model=gpt-realtime"
        session = await runner.run(model_config={"url": url, "api_key": "none"})
        async with asyncio.timeout(SECONDS), session:
            for at in range(0, len(question), STEP):
                await session.send_audio(question[at : at + STEP])
            return [event async for event in ends(session)]

    events = asyncio.run(talk())
    kinds = [event.type for event in events]
    assert "error" not in kinds, events
    assert {"audio", "agent_start", "agent_end", "history_added"} <= set(kinds)


async def ends(session: Any) -> AsyncIterator[Any]:
    """Events up to the end of the agent's turn."""
    async for event in session:
        yield event
        if event.type == "agent_end":
            return
