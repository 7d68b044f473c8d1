"""The sound of answers on a speaker of the test, by a clock of the test."""

from __future__ import annotations

import pytest

from edgeserve.commands.playback import ECHO_SECONDS, Playback
from edgeserve.messages import AudioEvent

SECOND = AudioEvent(bytes(48_000), 24_000)


class Speaker:
    """A speaker that plays until the test says otherwise."""

    def __init__(self) -> None:
        self.playing, self.finished, self.left = True, False, False
        self.events: list[AudioEvent] = []

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.playing, self.left = False, True

    def add(self, event: AudioEvent) -> None:
        self.events.append(event)

    def finish(self) -> None:
        self.finished = True


class Room:
    """A playback with its speakers and its time."""

    def __init__(self) -> None:
        self.speakers: list[Speaker] = []
        self.now = 100.0
        self.playback = Playback(self._make, lambda: self.now)

    def _make(self) -> Speaker:
        self.speakers.append(Speaker())
        return self.speakers[-1]


@pytest.fixture
def room() -> Room:
    return Room()


def test_what_was_heard_is_the_time_since_the_first_sound(room: Room) -> None:
    room.playback.add("a", SECOND)
    room.playback.add("a", SECOND)
    room.now += 1.25
    assert room.playback.stop() == 1.25
    assert room.speakers[0].left
    assert room.playback.stop() is None


def test_nobody_hears_more_than_there_is(room: Room) -> None:
    room.playback.add("a", SECOND)
    room.now += 30
    assert room.playback.stop() == 1.0


def test_sound_that_has_ended_is_not_stopped(room: Room) -> None:
    room.playback.add("a", SECOND)
    room.playback.finish()
    assert room.speakers[0].finished
    room.speakers[0].playing = False
    assert room.playback.stop() is None
    assert room.speakers[0].left


def test_another_answer_ends_the_one_before(room: Room) -> None:
    room.playback.add("a", SECOND)
    room.playback.add("b", SECOND)
    assert [one.left for one in room.speakers] == [True, False]
    assert room.playback.item == "b"
    room.now += 0.5
    assert room.playback.stop() == 0.5


def test_the_room_hears_an_answer_a_little_longer(room: Room) -> None:
    assert not room.playback.audible
    room.playback.add("a", SECOND)
    assert room.playback.audible
    room.speakers[0].playing = False
    assert room.playback.audible
    assert not room.playback.playing
    room.now += 2 * ECHO_SECONDS
    assert not room.playback.audible
