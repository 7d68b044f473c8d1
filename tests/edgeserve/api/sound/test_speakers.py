"""Who speaks at a time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.raw import dialled
from support.server import fake_pool, serving, until
from support.sounds import FORMS, encoded, melody

from edgeserve.api.sound.speakers import Speakers
from edgeserve.audio.files import SoundFilesHere
from edgeserve.media.leash import Leash
from edgeserve.messages import SegmentEvent, SpeakerEvent, Word

TURNS = (SpeakerEvent(0.0, 2.0, 0), SpeakerEvent(2.0, 3.0, 1), SpeakerEvent(5.0, 6.0, 2))


@pytest.mark.parametrize(
    ("start", "end", "speaker"),
    [
        (0.0, 1.0, "Ann"),
        (1.5, 2.4, "Ann"),
        (1.5, 2.6, "A"),
        (3.2, 3.9, "A"),
        (4.2, 4.9, "B"),
        (3.2, 5.9, "B"),
        (9.0, 9.5, "B"),
    ],
)
def test_the_longest_part_decides_and_then_the_distance(start: float, end: float, speaker: str) -> None:
    assert Speakers(TURNS, ["Ann"]).at(start, end) == speaker


@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=30, unique=True).map(sorted),
    st.floats(0, 100),
    st.floats(0.01, 20),
)
def test_no_turn_has_a_longer_part_and_none_is_nearer(edges: list[float], start: float, length: float) -> None:
    """Every second stretch between the edges is a turn, each of another speaker."""
    turns = [SpeakerEvent(*edges[at : at + 2], speaker=at // 2) for at in range(0, len(edges) - 1, 2)]
    names = [str(one.speaker) for one in turns]
    end = start + length
    found = turns[names.index(Speakers(turns, names).at(start, end))]

    def overlap(one: SpeakerEvent) -> float:
        return max(0.0, min(one.end, end) - max(one.start, start))

    def distance(one: SpeakerEvent) -> float:
        return max(one.start - end, start - one.end, 0.0)

    assert overlap(found) == max(map(overlap, turns))
    if not overlap(found):
        assert distance(found) == min(map(distance, turns))


def test_letters_go_on_behind_z() -> None:
    names = [Speakers([SpeakerEvent(0, 1, number)], ["Ann"]).at(0, 1) for number in (1, 26, 27, 53)]
    assert names == ["A", "Z", "AA", "AAA"]


def test_no_letter_is_a_known_name() -> None:
    turns = [SpeakerEvent(number, number + 1, number) for number in range(4)]
    speakers = Speakers(turns, ["A", "C"])
    assert [speakers.at(number, number + 1) for number in range(4)] == ["A", "C", "B", "D"]


def test_where_nobody_was_heard_there_is_a_first_speaker() -> None:
    assert Speakers([], ["Ann"]).at(0.0, 1.0) == "A"


class Slow(SoundFilesHere):
    """Files of three pieces, which wait for ``go`` behind the first one."""

    def __init__(self) -> None:
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.leash = Leash()
        self.read = 0

    def check(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> Any:
        self.leash = leash
        return self

    def pieces(self) -> Iterator[bytes]:
        try:
            for _ in range(3):
                self.read += 1
                yield bytes(64_000)
                self.begun.set()
                assert self.go.wait(30)
        finally:
            self.ended.set()


def test_a_client_that_leaves_ends_the_reading_of_its_known_speakers() -> None:
    fields = {"model": "asr", "response_format": "diarized_json", "known_speaker_names[]": "Ann"}
    data = {**fields, "known_speaker_references[]": "data:audio/wav;base64,aGVsbG8="}
    with serving(fake_pool(["asr", "speaker"])) as running:
        files = Slow()
        sound = encoded(melody(1.0), FORMS["wav"])
        request = httpx.Request("POST", running.url, data=data, files={"file": ("said", sound)})
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        running.app.state.sound_files = files
        with dialled(running) as client:
            client.sendall(f"POST /v1/audio/transcriptions HTTP/1.1\r\n{head}\r\n".encode() + request.read())
            assert files.begun.wait(10)
        until(lambda: files.leash.is_cut)
        files.go.set()
        assert files.ended.wait(10)
        assert files.read == 2


words = st.lists(st.tuples(st.floats(0, 6), st.floats(0.01, 0.5)), max_size=12).map(
    lambda times: tuple(Word(at, at + long, f" w{number}") for number, (at, long) in enumerate(sorted(times)))
)


@given(words)
def test_the_parts_of_a_segment_are_the_segment(said: tuple[Word, ...]) -> None:
    segment = SegmentEvent(0.0, 7.0, "".join(word.text for word in said), words=said)
    parts = Speakers(TURNS, []).split(segment)
    assert "".join(part.text for _, part in parts) == segment.text
    assert all(one[0] != other[0] for one, other in itertools.pairwise(parts))
    if len(parts) > 1:
        assert tuple(word for _, part in parts for word in part.words) == said
    else:
        assert parts[0][1] is segment
