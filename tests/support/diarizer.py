"""The suite of every engine that tells speakers apart, on top of that of all engines."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from support.contract import EngineContract, told

from edgeserve.errors import InvalidRequest
from edgeserve.messages import DiarizeRequest, Pcm, SpeakerEvent


class DiarizerContract(EngineContract):
    """``first``, ``second``: sound of two speakers, a second or more each."""

    first: ClassVar[bytes]
    second: ClassVar[bytes]

    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        return (one for one in engine.diarize(DiarizeRequest(Pcm(self.first + self.second)), cancel) if one)

    def speakers(self, engine: Any, *references: bytes) -> list[int]:
        """The speakers of the two recordings one after the other, with these references."""
        sound = Pcm(self.first + self.second)
        request = DiarizeRequest(sound, tuple(map(Pcm, references)))
        turns = told(engine.diarize(request, threading.Event()))
        assert all(isinstance(one, SpeakerEvent) for one in turns)
        assert all(one.start < one.end for one in turns)
        assert all(one.end <= other.start for one, other in itertools.pairwise(turns))
        assert turns[-1].end <= sound.seconds + 0.1
        return list(dict.fromkeys(one.speaker for one in turns))

    def test_two_speakers_in_the_order_of_appearance(self, hot: Any) -> None:
        assert self.speakers(hot) == [0, 1]

    def test_known_speakers_have_the_numbers_of_their_references(self, hot: Any) -> None:
        assert self.speakers(hot, self.second) == [1, 0]
        assert self.speakers(hot, self.second, self.first) == [1, 0]

    def test_silence_has_no_speakers_and_is_no_reference(self, hot: Any) -> None:
        silence = Pcm(bytes(len(self.first)))
        assert not told(hot.diarize(DiarizeRequest(silence), threading.Event()))
        with pytest.raises(InvalidRequest, match="recording 1 holds no") as caught:
            list(hot.diarize(DiarizeRequest(silence, (Pcm(self.first), silence)), threading.Event()))
        assert caught.value.param == "references"

    def test_a_cancelled_request_tells_nobody(self, hot: Any) -> None:
        cancel = threading.Event()
        cancel.set()
        request = DiarizeRequest(Pcm(self.first), (Pcm(self.second),))
        assert told(hot.diarize(request, cancel)) == []
