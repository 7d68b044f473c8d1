"""Telling speakers apart without a runtime; ``edgeserve.engines.fake.engine`` says what the fakes do."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from edgeserve.engine import Cancel
from edgeserve.engines.fake.engine import SECOND_BYTES, FakeEngine, seconds
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Audio, DiarizeRequest, SpeakerEvent


class FakeDiarizer(FakeEngine):
    """The first sample of a second of sound is its voice, to a hundredth. Nobody speaks in a second of silence."""

    def diarize(self, request: DiarizeRequest, cancel: Cancel) -> Iterator[SpeakerEvent | None]:
        self._begin()
        voices = [_reference(audio, number) for number, audio in enumerate(request.references)]
        found: list[SpeakerEvent] = []
        for at, sound in enumerate(seconds(request.audio)):
            if cancel.is_set():
                return
            self._work()
            yield None
            if any(sound):
                voice = _voice(sound)
                voices += [] if voice in voices else [voice]
                found.append(SpeakerEvent(float(at), at + len(sound) / SECOND_BYTES, voices.index(voice)))
        yield from found


def _reference(audio: Audio, number: int) -> float:
    voice = _voice(next(seconds(audio)))
    if not voice:
        raise InvalidRequest(f"recording {number} holds no speech", param="references")
    return voice


def _voice(sound: bytes) -> float:
    return float(round(struct.unpack_from("<f", sound)[0], 2))
