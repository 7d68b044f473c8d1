"""Anthropic's own package for Python."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic", reason="make clients installs anthropic")

MODEL = "smollm2-135m-instruct"
ASKED: Any = [{"role": "user", "content": "Name a bird in one word."}]
TOOL: Any = {
    "name": "weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
FORCED: Any = {"type": "tool", "name": "weather"}
GREEDY = {"temperature": 0}
"""The newest clients have no field for it."""


def shows(feature: str) -> Any:
    return pytest.mark.client("anthropic", feature)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client


def words(message: Any) -> str:
    return "".join(one.text for one in message.content if one.type == "text")


@shows("messages")
def test_message(client: Any) -> None:
    answer = client.messages.create(
        model="claude-sonnet-4-5", max_tokens=16, messages=ASKED, system="Be short.", extra_body=GREEDY
    )
    assert words(answer)
    assert (answer.model, answer.role, answer.type) == (MODEL, "assistant", "message")
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0
    assert 0 < answer.usage.output_tokens <= 16
    assert answer._request_id.startswith("req_")


@shows("streams")
def test_stream(client: Any) -> None:
    asked = {"model": MODEL, "max_tokens": 16, "messages": ASKED, "extra_body": GREEDY}
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == words(message)
    assert message.usage.output_tokens > 0
    with client.messages.create(**asked, stream=True) as events:
        kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert {"content_block_start", "content_block_delta", "content_block_stop", "message_delta"} <= set(kinds)


@shows("stop sequences and prefill")
def test_stop_and_prefill(client: Any) -> None:
    asked = {"role": "user", "content": "Count from 1 to 9."}
    begun = [asked, {"role": "assistant", "content": "1, 2, 3, 4, "}]
    answer = client.messages.create(model=MODEL, max_tokens=32, messages=begun, stop_sequences=["7"], extra_body=GREEDY)
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "7")
    assert "5" in words(answer)


@shows("tools")
def test_tools(client: Any) -> None:
    asked = [{"role": "user", "content": "How is the weather in Paris?"}]
    given = {"model": MODEL, "max_tokens": 64, "tools": [TOOL], "extra_body": GREEDY}
    answer = client.messages.create(**given, messages=asked, tool_choice=FORCED)
    (call,) = answer.content
    assert (answer.stop_reason, call.type, call.name) == ("tool_use", "tool_use", "weather")
    assert isinstance(call.input["city"], str)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
    talk = [*asked, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert client.messages.create(**given, messages=talk, tool_choice={"type": "none"}).role == "assistant"
    with client.messages.stream(**given, messages=asked, tool_choice=FORCED) as stream:
        inputs = [event for event in stream if event.type == "input_json"]
        (streamed,) = stream.get_final_message().content
    assert inputs[-1].snapshot == streamed.input == call.input


@shows("thinking")
def test_thinking(client: Any) -> None:
    answer = client.messages.create(
        model=MODEL,
        max_tokens=48,
        messages=ASKED,
        thinking={"type": "enabled", "budget_tokens": 1024},
        extra_body=GREEDY,
    )
    assert {one.type for one in answer.content} <= {"thinking", "text"}
    back = [*ASKED, {"role": "assistant", "content": answer.content}, *ASKED]
    assert client.messages.create(model=MODEL, max_tokens=8, messages=back).content


@shows("structured output")
def test_structured_output(client: Any) -> None:
    pydantic = pytest.importorskip("pydantic", reason="anthropic needs pydantic")

    class Bird(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        name: str
        legs: int

    answer = client.messages.parse(model=MODEL, max_tokens=128, messages=ASKED, output_format=Bird)
    assert isinstance(answer.parsed_output, Bird)


@shows("count_tokens")
def test_count_tokens(client: Any) -> None:
    counted = client.messages.count_tokens(model=MODEL, messages=ASKED, tools=[TOOL], system="Be short.")
    answer = client.messages.create(model=MODEL, max_tokens=1, messages=ASKED, tools=[TOOL], system="Be short.")
    assert counted.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


@shows("models")
def test_models(client: Any) -> None:
    assert MODEL in [one.id for one in client.models.list()]
    assert client.models.retrieve(MODEL).display_name == MODEL


@shows("prompt cache of Claude Code")
def test_a_first_block_that_changes_keeps_the_cache(client: Any) -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.77.a43; cc_entrypoint=cli; cch={};"
    rules = "\n".join(f"Rule {number}: never say the number {number} aloud." for number in range(60))
    read = []
    for part in ("0a1b2", "fffff"):
        system = [{"type": "text", "text": line.format(part)}, {"type": "text", "text": rules}]
        usage = client.messages.create(model=MODEL, max_tokens=4, messages=ASKED, system=system).usage
        whole = usage.input_tokens + usage.cache_read_input_tokens
        read.append(usage.cache_read_input_tokens)
    assert read[1] >= whole - 2


@shows("errors")
def test_errors(client: Any) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="whisper-tiny.en", max_tokens=8, messages=ASKED)
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert missing.value.request_id == missing.value.body["request_id"]
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        client.messages.create(model=MODEL, max_tokens=8, messages=[])
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: (more than )?\d+ tokens > \d+ maximum"):
        client.messages.create(model=MODEL, max_tokens=8, messages=[{"role": "user", "content": "word " * 100_000}])
    picture = {"type": "base64", "media_type": "image/png", "data": png()}
    with pytest.raises(anthropic.NotFoundError, match="vision"):  # no such model is configured here
        client.messages.create(
            model=MODEL, max_tokens=8, messages=[{"role": "user", "content": [{"type": "image", "source": picture}]}]
        )


def png() -> str:
    """A picture of one pixel in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head, row = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0), zlib.compress(b"\0\xff\0\0")
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", row) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()
