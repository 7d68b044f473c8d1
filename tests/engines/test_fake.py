"""The reference engines pass the contract that all others pass."""

from __future__ import annotations

import struct

import pytest
from support.contract import ChatContract, SpeechToTextContract, TextToSpeechContract

from edgeserve.engine import ModelSpec
from engines.fake import FakeChat, FakeSpeechToText, FakeTextToSpeech


class TestFakeChat(ChatContract):
    make = FakeChat

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("llm", "fake", "engines.fake:FakeChat")


class TestFakeSpeechToText(SpeechToTextContract):
    make = FakeSpeechToText
    pcm = struct.pack("<f", 0.5) * 32_000

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("asr", "fake", "engines.fake:FakeSpeechToText")


class TestFakeTextToSpeech(TextToSpeechContract):
    make = FakeTextToSpeech

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return ModelSpec("tts", "fake", "engines.fake:FakeTextToSpeech")
