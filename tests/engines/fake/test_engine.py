"""The reference engines pass the contract that all others pass."""

from __future__ import annotations

import functools
import itertools
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.contract import ChatContract, RerankContract, SpeechToTextContract, TextToSpeechContract, resumed, told
from support.gates import fake_spec

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.fake.chat import FakeBatchChat, FakeChat
from edgeserve.engines.fake.engine import MARK, FakeEngine, FakeSpeechToText, FakeTextToSpeech
from edgeserve.engines.fake.rerank import FakeRerank
from edgeserve.errors import EngineFailure
from edgeserve.messages import (
    ChatRequest,
    ImagePart,
    Message,
    Pcm,
    PromptEvent,
    SpeakRequest,
    TextPart,
    TokenEvent,
    TranscribeRequest,
)


class TestFakeChat(ChatContract):
    make = FakeChat

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("llm", "fake", "edgeserve.engines.fake.chat:FakeChat", options={"prefix_cache_mb": 7})

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

    def test_pictures_are_read_before_the_first_event(self, engine: FakeChat) -> None:
        engine.open()
        engine.heat()
        picture = ImagePart(memoryview(bytes(6)))
        asked = ChatRequest((Message("user", (picture, TextPart("what?"))),), max_tokens=9, count="first")
        answer = engine.chat(asked, threading.Event())
        assert next(answer) == PromptEvent(1)
        picture.release()
        said = "".join(event.text for event in answer if isinstance(event, TokenEvent))
        assert said == "1 images of 6 bytes: what?"

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
        return ModelSpec("llm", "fake", "edgeserve.engines.fake.chat:FakeBatchChat")


class TestFakeRerank(RerankContract):
    make = FakeRerank

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("rerank", "fake", "edgeserve.engines.fake.rerank:FakeRerank")


class TestFakeSpeechToText(SpeechToTextContract):
    make = FakeSpeechToText
    pcm = struct.pack("<f", 0.5) * 32_000

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("asr", "fake", "edgeserve.engines.fake.engine:FakeSpeechToText")

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
        assert [(event.start, event.end) for event in itertools.islice(events, 0, 5, 2)] == [(0, 1), (1, 2), (2, 3)]
        assert read == [0, 1]
        cancel.set()
        assert list(events) == []
        assert read == [0, 1]


class TestFakeTextToSpeech(TextToSpeechContract):
    make = FakeTextToSpeech

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("tts", "fake", "edgeserve.engines.fake.engine:FakeTextToSpeech")


class TestModelFile:
    def engine(self, path: Path, data: bytes) -> FakeEngine:
        path.write_bytes(data)
        return FakeEngine(ModelSpec("llm", "fake", "edgeserve.engines.fake.engine:FakeEngine", {"model": path}))

    def test_an_open_engine_maps_its_file(self, tmp_path: Path) -> None:
        engine = self.engine(tmp_path / "model", MARK + bytes(9000) + MARK)
        engine.open()
        engine.heat()
        engine.close()
        assert engine.rung is Rung.COLD

    @pytest.mark.parametrize("data", [b"", MARK + bytes(9000), b"another" + MARK], ids=["empty", "cut", "another"])
    def test_another_file_is_a_failure(self, tmp_path: Path, data: bytes) -> None:
        engine = self.engine(tmp_path / "model", data)
        with pytest.raises(EngineFailure, match="model"):
            engine.open()
        assert engine.rung is Rung.COLD

    def test_a_file_that_is_cut_under_its_reader_ends_the_process(self, tmp_path: Path) -> None:
        engine = self.engine(tmp_path / "model", MARK + bytes(9000) + MARK)
        code = (
            "import os, pathlib\nfrom edgeserve.engine import ModelSpec\n"
            "from edgeserve.engines.fake.engine import FakeEngine\n"
            f"path = pathlib.Path({str(engine.spec.files['model'])!r})\n"
            "engine = FakeEngine(ModelSpec('llm', 'fake', '', {'model': path}))\n"
            "engine.open()\nos.truncate(path, 100)\nengine.heat()\n"
        )
        assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGBUS


def test_answers_that_rest_between_their_parts_are_the_same_together() -> None:
    """An answer in parts has the events of one that never rests."""
    ear, voice = FakeSpeechToText(fake_spec("asr")), FakeTextToSpeech(fake_spec("tts"))
    for engine in (ear, voice):
        engine.open()
        engine.heat()
    sound, text = TranscribeRequest(Pcm(struct.pack("<f", 0.5) * 40_000)), SpeakRequest("One two. Three. . Four")
    answers: list[tuple[Any, Any]] = [(ear.transcribe, sound), (voice.speak, text)]
    for answer, request in answers:
        run = functools.partial(answer, cancel=threading.Event())
        whole = told(run(request))
        assert len(whole) > 2
        assert list(resumed(run, request)) == whole
