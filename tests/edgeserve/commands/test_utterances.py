"""Utterances, cut out of the sound of a microphone."""

from __future__ import annotations

import pytest
from support.wyoming import loud

from edgeserve.commands.utterances import utterance, utterances

PIECE = 3200


def pieces(sound: bytes) -> list[bytes]:
    return [sound[at : at + PIECE] for at in range(0, len(sound), PIECE)]


def silence(seconds: float) -> bytes:
    return bytes(int(seconds * 16_000) * 2)


def seconds(sound: bytes) -> float:
    return len(sound) / 32_000


def test_an_utterance_ends_with_a_pause() -> None:
    speech = loud(1.0)
    found = utterance(pieces(silence(3) + speech + silence(3)))
    assert speech in found
    assert 1.8 <= seconds(found) < 2.6


def test_no_sound_between_two_utterances_is_in_both() -> None:
    first, second = list(utterances(pieces(loud(1.0) + silence(2) + loud(2.0) + silence(2))))
    assert 1.7 <= seconds(first) < 2.2
    assert 2.7 <= seconds(second) < 3.5


def test_silence_is_no_utterance() -> None:
    assert utterance(pieces(silence(5))) == b""


def test_a_click_is_no_utterance() -> None:
    assert utterance(pieces(silence(1) + loud(0.05) + silence(2))) == b""


@pytest.mark.slow
def test_an_utterance_without_a_pause_ends_at_last() -> None:
    assert 28 <= seconds(utterance(pieces(loud(40)))) <= 30


def test_the_end_of_the_sound_ends_an_utterance() -> None:
    assert seconds(utterance(pieces(loud(1.0)))) == 1.0
