"""The OpenAI dialect, judged by the official client against a real server."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from benchmarks.mmproj import picture
from openai import AsyncOpenAI, OpenAI
from support.gates import BATCHING_FAKES, HeldAnswer, engine_of
from support.server import Running, fake_pool, lower, serving, until
from support.speech import wav

from edgeserve.engine import Cancel, Rung
from edgeserve.engines.fake.engine import FakeSpeechToText
from edgeserve.errors import EngineFailure
from edgeserve.messages import SegmentEvent, TranscribeEvent, TranscribeRequest

TONE = wav([0.5] * 24_000)
HELLO = [{"role": "user", "content": "hello there friend"}]


def test_chat(ai: OpenAI) -> None:
    answer = ai.chat.completions.create(model="fake-llm", messages=HELLO)
    assert answer.choices[0].message.content == "hello there friend"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.object == "chat.completion"
    assert answer.system_fingerprint
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 3, 6)


def test_chat_streams_with_usage(ai: OpenAI) -> None:
    options = {"include_usage": True}
    chunks = list(ai.chat.completions.create(model="llm", messages=HELLO, stream=True, stream_options=options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello there friend"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3
    assert len({chunk.id for chunk in chunks}) == 1


def test_streams_are_flushed_token_by_token() -> None:
    with serving(fake_pool(["llm"])) as running, OpenAI(base_url=f"{running.url}/v1", api_key="x") as ai:
        go = threading.Semaphore(0)
        engine: Any = engine_of(running.pool.gates["llm"])
        running.client.post("/v1/chat", json={"prompt": "be hot"})
        engine.on_work = lambda: go.acquire(timeout=10)  # one token for each release
        told = []
        go.release()
        for chunk in ai.chat.completions.create(model="llm", messages=HELLO, stream=True):
            told += [chunk.choices[0].delta.content] if chunk.choices[0].delta.content else []
            go.release()
        assert "".join(told) == "hello there friend"
        assert len(told) == 3


def test_stop_max_tokens_and_several_answers(ai: OpenAI) -> None:
    answer = ai.chat.completions.create(model="llm", messages=HELLO, stop="friend", n=2, seed=3)
    assert [choice.message.content for choice in answer.choices] == ["hello there"] * 2
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 4)  # a prompt counts once
    short = ai.chat.completions.create(model="llm", messages=HELLO, max_completion_tokens=1)
    assert short.choices[0].finish_reason == "length"
    chunks = ai.chat.completions.create(model="llm", messages=HELLO, stream=True, n=2)
    assert {choice.index for chunk in chunks for choice in chunk.choices} == {0, 1}


def test_json_object_and_images(ai: OpenAI) -> None:
    form = {"type": "json_object"}
    answer = ai.chat.completions.create(model="llm", messages=HELLO, response_format=form)
    assert json.loads(answer.choices[0].message.content or "") == {}
    image = picture("red")
    url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url}}]
    seen = ai.chat.completions.create(model="fake-vision", messages=[{"role": "user", "content": parts}])
    assert seen.choices[0].message.content == f"1 images of {len(image)} bytes: what?"


def test_addresses_of_images_are_not_fetched(ai: OpenAI) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]
    with pytest.raises(openai.BadRequestError, match=r"fetches no addresses: .* set remote_images = true"):
        ai.chat.completions.create(model="vision", messages=[{"role": "user", "content": parts}])


def test_completions(ai: OpenAI) -> None:
    answer = ai.completions.create(model="llm", prompt=["a b", "c d e"], max_tokens=2, echo=True)
    assert [choice.text for choice in answer.choices] == ["a ba b", "c d ec d"]
    assert [choice.finish_reason for choice in answer.choices] == ["stop", "length"]
    twice = ai.completions.create(model="llm", prompt=["a b", "c d e"], n=2)
    assert twice.usage is not None
    assert (twice.usage.prompt_tokens, twice.usage.completion_tokens) == (5, 10)
    chunks = list(ai.completions.create(model="llm", prompt="a b", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "a b"


def test_async_client() -> None:
    async def run(url: str) -> None:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as ai:
            answers = await asyncio.gather(
                *(ai.chat.completions.create(model="llm", messages=HELLO) for _ in range(4)),
            )
            assert {answer.choices[0].message.content for answer in answers} == {"hello there friend"}
            stream = await ai.chat.completions.create(model="llm", messages=HELLO, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            assert text == "hello there friend"

    with serving(fake_pool(["llm"])) as running:
        asyncio.run(run(running.url))


@pytest.mark.slow
def test_transcriptions_in_all_forms(ai: OpenAI) -> None:
    def get(**settings: object) -> object:
        file = io.BytesIO(TONE)
        file.name = "tone.wav"
        return ai.audio.transcriptions.create(model="fake-asr", file=file, **settings)  # type: ignore[call-overload]

    assert get().text == "1 2"  # type: ignore[attr-defined]
    assert get(response_format="text") == "1 2\n"
    assert get(response_format="srt") == (
        "1\n00:00:00,000 --> 00:00:01,000\n1\n\n2\n00:00:01,000 --> 00:00:01,500\n2\n"
    )
    vtt = str(get(response_format="vtt"))
    assert vtt.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n1\n")
    verbose = get(response_format="verbose_json", timestamp_granularities=["segment"], language="de", temperature=0.2)
    assert verbose.language == "de"  # type: ignore[attr-defined]
    assert [one.text for one in verbose.segments] == [" 1", " 2"]  # type: ignore[attr-defined]
    both = {"timestamp_granularities": "word", "timestamp_granularities[]": "segment"}
    assert get(response_format="verbose_json", extra_body=both).segments  # type: ignore[attr-defined]
    plain = {"timestamp_granularities": ["word", "segment"]}
    timed = httpx.post(
        f"{str(ai.base_url).rstrip('/')}/audio/transcriptions",
        data={"response_format": "verbose_json", "vad_filter": "true", "backend": "x", **plain},
        files={"file": TONE},
    ).json()
    assert timed.keys() >= {"words", "segments"}
    assert get(response_format="verbose_json", extra_body={"task": "translate"}).language == "en"  # type: ignore[attr-defined]
    with pytest.raises(openai.BadRequestError, match="must be one of"):
        get(response_format="docx")


def test_streamed_transcriptions(ai: OpenAI) -> None:
    for settings in ({}, {"response_format": "text"}):
        with ai.audio.transcriptions.create(model="asr", file=("a.wav", TONE), stream=True, **settings) as stream:  # type: ignore[call-overload]
            *deltas, done = stream
        assert [one.type for one in deltas] == ["transcript.text.delta"] * 2
        assert [one.delta for one in deltas] == ["1", " 2"]
        assert (done.type, done.text) == ("transcript.text.done", "1 2")
        assert done.usage.to_dict() == {"type": "duration", "seconds": 2}
    silence = wav([0.0] * 16_000)
    (done,) = ai.audio.transcriptions.create(model="asr", file=("a.wav", silence), stream=True)
    assert done.text == ""  # type: ignore[union-attr]
    with pytest.raises(
        openai.BadRequestError, match="one of json, text, diarized_json where stream is true, not 'srt'"
    ) as caught:
        ai.audio.transcriptions.create(model="asr", file=("a.wav", TONE), stream=True, response_format="srt")  # type: ignore[call-overload]
    assert caught.value.param == "response_format"


def test_a_streamed_transcription_that_fails_midway_says_so() -> None:
    class Breaking(FakeSpeechToText):
        def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]:
            yield SegmentEvent(0.0, 1.0, " one")
            raise EngineFailure("out of breath")

    with serving(fake_pool(["asr"], fakes={"asr": Breaking})) as running:
        answer = running.client.post("/v1/audio/transcriptions", files={"file": TONE}, data={"stream": "true"})
    told = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
    assert [one["type"] for one in told] == ["transcript.text.delta", "error"]
    assert "out of breath" in told[1]["error"]["message"]


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # by OpenAI, in newer clients
def test_translations(ai: OpenAI) -> None:
    def get(**settings: object) -> Any:
        return ai.audio.translations.create(model="fake-asr", file=("a.wav", TONE), **settings)  # type: ignore[call-overload]

    assert get().text == "one two"
    assert get(response_format="text") == "one two\n"
    assert get(response_format="srt").startswith("1\n00:00:00,000 --> 00:00:01,000\none\n")
    assert get(response_format="vtt").startswith("WEBVTT\n")
    verbose = get(response_format="verbose_json", prompt="Numbers.", temperature=0.2)
    assert (verbose.task, verbose.language, verbose.text) == ("translate", "en", "one two")
    assert [one.text for one in verbose.segments] == [" one", " two"]
    assert get(extra_body={"language": "de"}).text == "one two", "a field that the route does not know"


def test_moderations_are_refused_clearly(ai: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="this server moderates nothing") as caught:
        ai.moderations.create(input="x")
    assert caught.value.code == "not_supported"


def test_models(ai: OpenAI) -> None:
    assert "fake-llm" in {model.id for model in ai.models.list()}
    assert ai.models.retrieve("fake-tts").id == "fake-tts"
    with pytest.raises(openai.NotFoundError, match="served: fake-llm") as missing:
        ai.models.retrieve("gpt-7")
    assert missing.value.code == "model_not_found"


def test_errors_have_the_clients_classes(ai: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        ai.chat.completions.create(model="gpt-7", messages=HELLO)
    assert (missing.value.param, missing.value.code) == ("model", "model_not_found")
    assert missing.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="temperature must lie between 0 and 100"):
        ai.chat.completions.create(model="llm", messages=HELLO, temperature=101)
    for token in ("²", "-1", "9" * 5000):
        with pytest.raises(openai.BadRequestError, match="logit_bias must be an object of token ids"):
            ai.chat.completions.create(model="llm", messages=HELLO, logit_bias={token: 1})


THOUGHT = [{"role": "user", "content": "<think> let me see </think> it is Paris"}]


def test_thoughts_stand_apart(ai: OpenAI) -> None:
    answer = ai.chat.completions.create(model="llm", messages=THOUGHT, logprobs=True)
    message = answer.choices[0].message
    assert message.content == "it is Paris"
    assert message.reasoning_content == "let me see"  # type: ignore[attr-defined]
    assert answer.choices[0].logprobs is not None
    assert [one.token for one in answer.choices[0].logprobs.content or ()] == [" it", " is", " Paris"]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 5
    plain = ai.chat.completions.create(model="llm", messages=HELLO).choices[0].message
    assert not hasattr(plain, "reasoning_content")


def test_thoughts_are_streamed_first(ai: OpenAI, running: Running) -> None:
    deltas = [one.choices[0].delta for one in ai.chat.completions.create(model="llm", messages=THOUGHT, stream=True)]
    thoughts = [getattr(delta, "reasoning_content", None) or "" for delta in deltas]
    assert "".join(thoughts) == "let me see"
    assert "".join(delta.content or "" for delta in deltas) == "it is Paris"
    assert sum(map(bool, thoughts)) == 3
    assert running.client.post("/v1/chat", json={"messages": THOUGHT}).json() == {"text": "it is Paris"}


def test_the_usage_stands_in_the_last_chunk_only(ai: OpenAI) -> None:
    options = {"include_usage": True}
    chunks = list(ai.chat.completions.create(model="llm", messages=HELLO, stream=True, n=2, stream_options=options))
    assert all(chunk.usage is None and chunk.choices for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (3, 6)
    assert chunks[-1].usage.prompt_tokens_details is not None
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 0
    assert all(chunk.usage is None for chunk in ai.chat.completions.create(model="llm", messages=HELLO, stream=True))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "peak"), [(None, 4), (7, 1)])
def test_several_answers_are_made_at_once_unless_they_must_be_had_again(seed: int | None, peak: int) -> None:
    with (
        serving(fake_pool(["llm"], fakes=BATCHING_FAKES, delay=0.01)) as running,
        OpenAI(base_url=f"{running.url}/v1", api_key="x", max_retries=0) as ai,
    ):
        words = [{"role": "user", "content": "word " * 8}]
        answer = ai.chat.completions.create(model="llm", messages=words, n=6, seed=seed)
        assert [choice.index for choice in answer.choices] == list(range(6))
        assert {len((choice.message.content or "").split()) for choice in answer.choices} == {8}
        assert engine_of(running.pool.gates["llm"]).peak == peak


def test_a_full_queue_is_busy_and_says_when_to_come_back() -> None:
    with serving(fake_pool(["llm"], queue_limit=0)) as running, HeldAnswer(running.pool.gates["llm"]):
        body = {"model": "llm", "messages": [{"role": "user", "content": "one two"}], "stream": True}
        with running.client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()  # kept: closing it would close the connection
            next(lines)
            answer = httpx.post(f"{running.url}/v1/chat/completions", json={**body, "stream": False})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"]["code"] == "queue_full"


def test_a_client_that_goes_away_frees_the_engine() -> None:
    with serving(fake_pool(["llm"], delay=0.01, context=10**6)) as running:
        gate = running.pool.gates["llm"]
        body = {"prompt": "word " * 10_000}
        with running.client.stream("POST", "/v1/chat/stream", json=body) as stream:
            lines = stream.iter_lines()  # kept: closing it would close the connection
            next(lines)
            assert gate.leases == 1
        until(lambda: gate.leases == 0)
        assert running.client.post("/v1/chat", json={"prompt": "next"}).json() == {"text": "next"}
        assert gate.rung is Rung.HOT
        lower(gate, Rung.COLD)


@pytest.mark.slow
def test_a_client_that_goes_away_before_a_whole_answer_frees_the_engine() -> None:
    with serving(fake_pool(["llm"], delay=0.01, context=10**6)) as running:
        gate = running.pool.gates["llm"]
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{running.url}/v1/chat", json={"prompt": "word " * 10_000}, timeout=0.3)
        until(lambda: gate.leases == 0)
