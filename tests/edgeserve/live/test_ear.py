"""One hypothesis at a time for all sessions, on a lease of its own, and features that an engine lacks."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.gates import FAKES, engine_of, fake_spec
from support.server import considerate_governor, fake_pool
from support.sound import speech

from edgeserve.errors import InvalidRequest, NotSupported
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.live.ear import Ear, Options, words_of
from edgeserve.messages import Pcm, SegmentEvent, TranscribeRequest, TranscriptEnd, Word
from edgeserve.residency.pool import Pool

ASK = TranscribeRequest(Pcm(speech(2)), prompt="before", word_timestamps=True)


def heard(ear: Ear, options: Options | None = None, times: int = 1) -> list[Word]:
    async def run() -> list[Word]:
        for _ in range(times):
            words = await ear.hear(lambda: ASK, options or Options(), lambda: False)
        return words

    return asyncio.run(run())


def test_words_of_segments_without_times_share_their_time() -> None:
    words = list(words_of(SegmentEvent(2.0, 4.0, " one two 四")))
    assert [word.text for word in words] == [" one", " two", " 四"]
    assert (words[0].start, words[0].end, words[-1].end) == (2.0, pytest.approx(2.8), pytest.approx(4.0))
    timed = (Word(0.1, 0.2, " a"),)
    assert tuple(words_of(SegmentEvent(0, 1, " a", words=timed))) == timed
    assert list(words_of(SegmentEvent(0, 1, ""))) == list(words_of(TranscriptEnd("en", 1.0))) == []


def test_sessions_take_one_place_in_the_queue_and_listen_to_what_is_there_in_their_turn() -> None:
    pool = fake_pool(["asr"], queue_limit=0)
    ear, asked = Ear(pool), []

    async def run() -> None:
        def question(number: int) -> TranscribeRequest:
            asked.append((number, pool.gates["asr"].leases))
            return dataclasses.replace(ASK)

        answers = await asyncio.gather(*(ear.hear(lambda n=n: question(n), Options(), lambda: False) for n in range(8)))
        assert [[word.text for word in words] for words in answers] == [[" 1", " 2"]] * 8

    asyncio.run(run())
    assert asked == [(number, 0) for number in range(8)]
    assert pool.gates["asr"].leases == 0
    asyncio.run(pool.stop())


def test_a_model_that_is_slow_holds_up_no_other_models_sessions() -> None:
    governor = considerate_governor()
    specs = [dataclasses.replace(fake_spec("asr"), id=model, name=model) for model in ("slow", "quick")]
    pool = Pool([ThreadHost(FAKES["asr"](one), governor) for one in specs], governor)
    engine: Any = engine_of(pool.gates["slow"])
    begun, go_on = threading.Event(), threading.Event()

    def transcribe(request: TranscribeRequest, cancel: Any) -> Iterator[Any]:
        begun.set()
        assert go_on.wait(60)
        yield SegmentEvent(0.0, 1.0, " late")

    engine.transcribe = transcribe

    async def run() -> None:
        ear = Ear(pool)
        slow = asyncio.create_task(ear.hear(lambda: ASK, Options(model="slow"), lambda: True))
        await asyncio.to_thread(begun.wait, 60)
        async with asyncio.timeout(60):
            words = await ear.hear(lambda: ASK, Options(model="quick"), lambda: False)
        assert [word.text for word in words or ()] == [" 1", " 2"]
        assert not slow.done()
        go_on.set()
        assert [word.text for word in await slow or ()] == [" late"]
        assert ear.cost(Options(model="slow")) > 0 == ear.cost(Options(model="third"))

    try:
        asyncio.run(run())
    finally:
        go_on.set()
    asyncio.run(pool.stop())


def test_an_engine_that_lacks_word_times_and_prompts_is_asked_without() -> None:
    pool = fake_pool(["asr"])
    engine: Any = engine_of(pool.gates["asr"])
    asked: list[TranscribeRequest] = []

    def transcribe(request: TranscribeRequest, cancel: Any) -> Iterator[Any]:
        asked.append(request)
        if request.word_timestamps:
            raise NotSupported("no words", param="timestamp_granularities")
        if request.prompt:
            raise InvalidRequest("no prompts", param="prompt")
        yield SegmentEvent(0.0, 1.0, " hello")

    engine.transcribe = transcribe
    ear = Ear(pool)
    assert [word.text for word in heard(ear, times=2)] == [" hello"]
    assert [(one.word_timestamps, one.prompt) for one in asked] == [
        (True, "before"),
        (False, "before"),
        (False, None),
        (False, None),
    ]
    with pytest.raises(InvalidRequest, match="no prompts"):
        heard(Ear(pool), Options(prompt="mine"))
    asyncio.run(pool.stop())


def test_other_refusals_are_told() -> None:
    pool = fake_pool(["asr"])
    engine: Any = engine_of(pool.gates["asr"])

    def transcribe(request: TranscribeRequest, cancel: Any) -> Iterator[Any]:
        raise InvalidRequest("no such language", param="language")
        yield

    engine.transcribe = transcribe
    with pytest.raises(InvalidRequest, match="no such language"):
        heard(Ear(pool))
    asyncio.run(pool.stop())
