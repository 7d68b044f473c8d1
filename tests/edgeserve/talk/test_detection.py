"""Flags of frames: by a detector that knows the frames of ``speech``, and by loudness."""

from __future__ import annotations

import random

import pytest
from support.sound import silence, speech

from edgeserve.messages import DetectRequest, SpeechChances
from edgeserve.talk.detection import (
    FRAME_BYTES,
    FRAME_SECONDS,
    HOLD_FRAMES,
    LEAD_FRAMES,
    LOUDNESS,
    MOST_STATE,
    PATIENCE_FRAMES,
    VERDICTS,
    Detection,
    margin,
)


def chances(*values: float, state: bytes = b"state") -> SpeechChances:
    return SpeechChances(values, state)


def frames(question: DetectRequest | None) -> int:
    assert question is not None
    return len(question.samples) // FRAME_BYTES


def seconds(flags: bytes) -> float:
    return flags.count(1) * FRAME_SECONDS


def awake() -> Detection:
    """With 14 frames that wait: ten of silence, and four loud ones."""
    detection = Detection(0.5, asks=True)
    detection.feed(bytes(40 * FRAME_BYTES), speaking=False)
    detection.feed(speech(1)[: 4 * FRAME_BYTES], speaking=False)
    return detection


def test_without_a_detector_loudness_decides_at_once() -> None:
    detection = Detection(0.5, asks=False)
    flags = detection.feed(silence(1) + speech(1) + silence(1), speaking=False)
    assert len(flags) == 93
    assert seconds(flags) == pytest.approx(1.0, abs=0.1)
    assert detection.starts == LOUDNESS
    assert not detection.awake
    assert detection.question() is None


def test_pieces_of_any_length_give_the_same_flags() -> None:
    sound = silence(0.4) + speech(0.8) + silence(0.7) + speech(0.5)
    whole = Detection(0.5, asks=False).feed(sound, speaking=False)
    chance = random.Random(7)
    for _ in range(5):
        detection, step = Detection(0.5, asks=False), 4 * chance.randrange(1, 5_000)
        parts = [detection.feed(sound[at : at + step], speaking=False) for at in range(0, len(sound), step)]
        assert b"".join(parts) == whole


def test_the_detector_is_asked_nothing_in_a_quiet_room() -> None:
    detection = Detection(0.5, asks=True)
    flags = detection.feed(silence(5), speaking=False)
    assert flags == bytes(156 - LEAD_FRAMES)
    assert not detection.awake
    assert detection.question() is None


def test_a_sound_wakes_the_detector_which_hears_the_frames_before_it() -> None:
    detection = awake()
    question = detection.question()
    assert frames(question) == LEAD_FRAMES + 4
    assert question is not None
    assert question.state == b""
    assert detection.question() is None  # one at a time
    flags = detection.answer(question, chances(*[0.1] * 10, 0.9, 0.9, 0.9, 0.9))
    assert flags == bytes(10) + b"\1\1\1\1"
    assert detection.starts == VERDICTS
    detection.feed(speech(1)[: 2 * FRAME_BYTES], speaking=True)
    again = detection.question()
    assert again == DetectRequest(speech(1)[: 2 * FRAME_BYTES], b"state")


def test_speech_goes_on_a_little_below_the_threshold() -> None:
    detection = awake()
    question = detection.question()
    assert question is not None
    given = [0.4, 0.49, 0.5, 0.36, 0.34, 0.36, *[0.0] * 8]
    assert detection.answer(question, chances(*given))[:6] == bytes([0, 0, 1, 1, 0, 0])


def test_a_turn_under_way_keeps_the_detector_awake() -> None:
    for speaking in (True, False):
        detection = awake()
        question = detection.question()
        assert question is not None
        detection.answer(question, chances(*[0.9] * 14))
        for _ in range(HOLD_FRAMES):
            detection.feed(bytes(FRAME_BYTES), speaking=speaking)
        assert detection.awake is speaking


def test_loudness_decides_where_no_verdict_comes() -> None:
    detection = awake()
    question = detection.question()
    assert question is not None
    assert detection.answer(question, None) == b""
    flags = detection.feed(speech(3), speaking=False)
    assert len(flags) > PATIENCE_FRAMES
    assert flags.count(1) > 80
    assert detection.starts == LOUDNESS
    assert detection.seconds == 0


def test_a_verdict_that_comes_too_late_says_nothing() -> None:
    detection = awake()
    question = detection.question()
    assert question is not None
    assert detection.skip() == 14
    assert detection.answer(question, chances(*[0.9] * 14)) == b""


@pytest.mark.parametrize("found", [chances(0.9), chances(*[0.9] * 14, state=bytes(MOST_STATE + 1))])
def test_a_verdict_on_something_else_is_none(found: SpeechChances) -> None:
    detection = awake()
    question = detection.question()
    assert question is not None
    assert detection.answer(question, found) == b""
    assert detection.starts == LOUDNESS
    assert frames(detection.question()) == 14  # and it is asked again


def test_a_higher_threshold_needs_louder_speech_where_loudness_decides() -> None:
    sound = silence(1) + speech(1, loudness=0.0035)
    found = [seconds(Detection(one, asks=False).feed(sound, speaking=False)) for one in (0.0, 0.5, 1.0)]
    assert found[0] > found[1] > found[2]
    assert margin(0.5) == 3.0
