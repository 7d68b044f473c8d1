"""Silero in front of a conversation: noise opens no turn, and speech beside noise opens one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from benchmarks import noise
from benchmarks.noises import NOISES, fan
from support.cases import each
from support.speech import SENTENCES, spoken

from edgeserve.engines.asr.vad import Vad

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def vad(pulled: Callable[[str], Mapping[str, Path]]) -> Vad:
    return Vad(pulled("whisper-tiny.en")["vad"])


@each("name", list(NOISES))
def test_noise_opens_a_turn_by_loudness_alone(vad: Vad, name: str) -> None:
    sound = NOISES[name]()
    assert noise.turns(sound, None) >= 1
    assert noise.turns(sound, vad) == 0


@each("ratio", [None, 20, 5])
def test_sentences_beside_a_fan_are_turns(vad: Vad, ratio: int | None) -> None:
    found = noise.found([spoken(text) for text in SENTENCES[2:]], ratio, vad)
    assert found.whole == 3
    assert abs(found.start) < 0.2
    assert found.stop < 0.7


def test_loudness_finds_the_same_turns_in_a_quiet_room() -> None:
    found = noise.found([spoken(text) for text in SENTENCES[2:]], None, None)
    assert found.whole == 3
    assert len(fan()) == 80_000
