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
"""Numbers of a voice."""
LENGTH = 4
"""Bytes of the number at the end of a state: the length of the JSON in front of it."""


@dataclass(slots=True)
class Known:
    """All that is known of a recording so far.

    ``place``: where the answer began or goes on, or may rest since. ``references``: voices of the known speakers,
    float32 [r, VOICE]. ``heard``: the stretches in front of the place, and those behind it that were heard.
    """

    place: Place
    references: Any
    heard: list[Heard]

    @classmethod
    def at_rest(cls, rest: Rest) -> Known:
        """As it was when the answer rested. The voices stay in the bytes of the state."""
        import numpy

        end = len(rest.state) - LENGTH
        begin = end - int.from_bytes(rest.state[end:], "little")
        head = json.loads(rest.state[begin:end])
        voices = numpy.frombuffer(rest.state, "<f4", begin // 4).reshape(-1, VOICE)
        references, voices = voices[: head["references"]], voices[head["references"] :]
        return cls(Place(rest.at, head["detector"]), references, [*_stretches(head["heard"], voices)])

    def rest(self, place: Place) -> Rest | None:
        """A rest in front of a place; None where it is too near."""
        if not is_far(self.place.at, place.at):
            return None
        self.place = place
        heard = [(one.start, one.frames) for one in self.heard]
        head = json.dumps({"detector": place.detector, "references": len(self.references), "heard": heard}).encode()
        parts = [self.references, *(one.voices for one in self.heard), head, len(head).to_bytes(LENGTH, "little")]
        return Rest(place.at, state=b"".join(parts))


def _stretches(heard: Sequence[tuple[int, int]], voices: Any) -> Iterator[Heard]:
    at = 0
    for start, frames in heard:
        count = len(windows(frames))
        yield Heard(start, frames, voices[at : at + count])
        at += count
