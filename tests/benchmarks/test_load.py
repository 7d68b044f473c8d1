"""The mixed load tells right answers from wrong, cut and refused ones."""

from __future__ import annotations

import asyncio
import random

import pytest
from benchmarks.load import Load, chat, read_chunks, read_speech, speak
from support.server import fake_pool, serving, small_pool


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}\n\n',
        b'data: {"error": {"message": "memory"}}\n\ndata: [DONE]\n\n',
    ],
    ids=["no end", "an error inside"],
)
def test_a_cut_stream_is_not_complete(body: bytes) -> None:
    with pytest.raises(ValueError, match="stream"):
        read_chunks(body)


def test_speech_that_ends_early_is_not_complete() -> None:
    with pytest.raises(ValueError, match="stream ended"):
        read_speech(b'data: {"type": "speech.audio.delta", "audio": "AAAA"}\n\n')


@pytest.mark.slow
def test_answers_are_compared_and_counted() -> None:
    asks = [chat("one two three", 10), chat("one two three", 10, stream=True), speak("one", stream=True), speak("one")]
    with serving(fake_pool(["llm", "tts"])) as running:
        load = Load(running.url, asks, random.Random(1))
        asyncio.run(load.learn())
        assert [load.expected[one] for one in asks[:2]] == [("one two three", "stop")] * 2
        assert load.expected[asks[2]] == load.expected[asks[3]]
        turns = iter(range(20))
        asyncio.run(load.run(2, lambda: next(turns, None) is not None))
        assert load.wrong == []
        assert [one.status for one in load.outcomes] == [200] * 24
        load.expected[asks[0]] = ("else", "stop")
        asks[1:] = []
        turns = iter(range(1))
        asyncio.run(load.run(1, lambda: next(turns, None) is not None))
    assert load.wrong == ["llm 'one two three (whole)': ('one two three', 'stop') instead of ('else', 'stop')"]


def test_a_refusal_is_no_wrong_answer_and_a_lost_server_is() -> None:
    ask = chat("one", 10)
    with serving(small_pool(1000, {"llm": {"private_mb": 5000}})) as running:
        load = Load(running.url, [ask], random.Random(1))
        turns = iter(range(1))
        asyncio.run(load.run(1, lambda: next(turns, None) is not None))
        assert (load.wrong, load.outcomes[0].status) == ([], 507)
    turns = iter(range(1))
    asyncio.run(load.run(1, lambda: next(turns, None) is not None))
    assert load.outcomes[1].status == 0
    assert "ConnectError" in load.wrong[0]
