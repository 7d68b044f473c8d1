"""The reference engines pass the contract that all others pass."""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Iterator

import pytest
from support.contract import ChatContract, SpeechToTextContract, TextToSpeechContract

from edgeserve.engine import ModelSpec
from edgeserve.messages import TranscribeRequest
from engines.fake.chat import FakeBatchChat, FakeChat
from engines.fake.engine import FakeSpeechToText, FakeTextToSpeech


class TestFakeChat(ChatContract):
    make = FakeChat

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("llm", "fake", "engines.fake.chat:FakeChat", options={"prefix_cache_mb": 7})

    def test_the_prefix_cache_is_taken_by_an_answer_and_goes_when_closed(self, engine: FakeChat) -> None:
        engine.open()
        engine.heat()
        assert engine.savings() == {"prefix_cache": 0}
        list(self.run(engine, threading.Event()))
        assert engine.savings() == {"prefix_cache": 7 << 20}
        assert engine.footprint().private == 20 << 20, "the cache comes on top"
        engine.park()
        assert engine.savings() == {"prefix_cache": 7 << 20}
        engine.close()
        assert engine.savings() == {"prefix_cache": 0}

    def test_a_leak_outlives_the_engine(self) -> None:
        engine = FakeChat(ModelSpec("llm", "fake", "", options={"leak_mb": 3}))
        engine.open()
        engine.heat()
        before = engine.footprint().private
        list(self.run(engine, threading.Event()))
        assert engine.footprint().private == before + (3 << 20)
        engine.close()
        assert engine.footprint().total == 3 << 20


class TestFakeBatchChat(ChatContract):
    make = FakeBatchChat

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("llm", "fake", "engines.fake.chat:FakeBatchChat")


class TestFakeSpeechToText(SpeechToTextContract):
    make = FakeSpeechToText
    pcm = struct.pack("<f", 0.5) * 32_000

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("asr", "fake", "engines.fake.engine:FakeSpeechToText")

    def test_audio_is_read_as_it_is_heard_and_no_further_when_cancelled(self, hot: FakeSpeechToText) -> None:
        read: list[int] = []

        class Long:
            def pieces(self) -> Iterator[bytes]:
                for number in range(1000):
                    read.append(number)
                    yield self.piece

            piece = struct.pack("<f", 0.5) * 40_000

        cancel = threading.Event()
        events = hot.transcribe(TranscribeRequest(Long()), cancel)
        assert [(event.start, event.end) for event in itertools.islice(events, 3)] == [(0, 1), (1, 2), (2, 3)]
        assert read == [0, 1]
        cancel.set()
        assert list(events) == []
        assert read == [0, 1]


class TestFakeTextToSpeech(TextToSpeechContract):
    make = FakeTextToSpeech

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("tts", "fake", "engines.fake.engine:FakeTextToSpeech")
