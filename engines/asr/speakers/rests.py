"""Rests of a diarization: the voices that were heard so far."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.asr.rests import is_far
from edgeserve.engines.asr.speakers.turns import Heard, windows
from edgeserve.engines.asr.stretches import Place
from edgeserve.messages import Rest

VOICE = 256
"""Numbers of a voice. Six of ten are 0."""
LENGTH = 4
"""Bytes of the number at the end of a state: the length of the JSON in front of it."""


@dataclass(slots=True)
class Known:
    """All that is known of a recording so far.

    ``place``: where the answer began or goes on, or the latest one at which it may rest. ``references``: voices of the
    known speakers, float32 [r, VOICE]. ``heard``: the stretches so far.
    """

    place: Place
    references: Any
    heard: list[Heard]

    @classmethod
    def at_rest(cls, rest: Rest) -> Known:
        """As it was when the answer rested."""
        end = len(rest.state) - LENGTH
        begin = end - int.from_bytes(rest.state[end:], "little")
        head = json.loads(rest.state[begin:end])
        voices = _unpacked(rest.state, begin, head["voices"])
        references, voices = voices[: head["references"]], voices[head["references"] :]
        return cls(Place(rest.at, head["detector"]), references, [*_stretches(head["heard"], voices)])

    def rest(self, place: Place) -> Rest | None:
        """A rest in front of a place; None where it is too near.

        Its state: the numbers of all voices that are not 0, a bit for each number, the JSON, and the JSON's length.
        """
        import numpy

        if not is_far(self.place.at, place.at):
            return None
        self.place = place
        voices = [self.references, *(one.voices for one in self.heard)]
        head = json.dumps(
            {
                "detector": place.detector,
                "references": len(self.references),
                "voices": sum(map(len, voices)),
                "heard": [(one.start, one.frames) for one in self.heard],
            }
        ).encode()
        numbers, bits = [one[one != 0] for one in voices], [numpy.packbits(one != 0).tobytes() for one in voices]
        return Rest(place.at, state=b"".join([*numbers, *bits, head, len(head).to_bytes(LENGTH, "little")]))


def _unpacked(state: bytes, end: int, count: int) -> Any:
    """So many voices, whose bits end at byte ``end``: float32 [count, VOICE]."""
    import numpy

    at = end - count * VOICE // 8
    there = numpy.unpackbits(numpy.frombuffer(state, numpy.uint8, end - at, at)).reshape(count, VOICE).astype(bool)
    voices = numpy.zeros((count, VOICE), numpy.float32)
    voices[there] = numpy.frombuffer(state, numpy.float32, at // 4)
    return voices


def _stretches(heard: Sequence[tuple[int, int]], voices: Any) -> Iterator[Heard]:
    at = 0
    for start, frames in heard:
        count = len(windows(frames))
        yield Heard(start, frames, voices[at : at + count])
        at += count
