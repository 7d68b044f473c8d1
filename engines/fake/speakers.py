"""Telling speakers apart without a runtime; ``edgeserve.engines.fake.engine`` says what the fakes do."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

from edgeserve.engine import Cancel
from edgeserve.engines.fake.engine import SECOND_BYTES, FakeEngine, seconds
from edgeserve.errors import InvalidRequest
from edgeserve.messages import INPUT_SAMPLE_RATE, Audio, DiarizeRequest, Rest, SpeakerEvent


class FakeDiarizer(FakeEngine):
    """The first sample of a second of sound is its voice, to a hundredth. Nobody speaks in a second of silence.

    An answer may rest behind each second.
    """

    def diarize(self, request: DiarizeRequest, cancel: Cancel) -> Iterator[SpeakerEvent | Rest | None]:
        self._begin()
        first = request.rest.at // INPUT_SAMPLE_RATE if request.rest else 0
        voices: list[float]
        found: list[SpeakerEvent]
        if request.rest:
            voices, turns = json.loads(request.rest.state)
            found = [SpeakerEvent(*one) for one in turns]
        else:
            voices, found = [_reference(audio, number) for number, audio in enumerate(request.references)], []
        for at, sound in enumerate(seconds(request.audio)):
            if at < first:
                continue
            if cancel.is_set():
                return
            if at > first:
                turns = [(one.start, one.end, one.speaker) for one in found]
                yield Rest(at * INPUT_SAMPLE_RATE, state=json.dumps([voices, turns]).encode())
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
