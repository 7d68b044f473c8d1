"""Rests of a transcription: where it may, and what it has to know when it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from edgeserve.engines.asr.stretches import START, Place
from edgeserve.messages import INPUT_SAMPLE_RATE, Rest, TranscribeRequest

REST_SECONDS = 30
"""Sound from the place where an answer began to the next one where it may rest, at least."""
SKIPPED = 20
"""And at least one second for so many in front of that place. To decode these again takes less than a third of the time
that a small model needs for that one."""


def rest(place: Place, **known: Any) -> Rest:
    """A rest in front of a place. ``known``: JSON values that the engine needs there."""
    return Rest(place.at, state=json.dumps({"detector": place.detector, **known}).encode())


class Begin(NamedTuple):
    """The place where an answer begins or goes on. ``known``: as for ``rest``; empty at the start of the sound."""

    place: Place
    known: Mapping[str, Any]

    @classmethod
    def of(cls, request: TranscribeRequest) -> Begin:
        if request.rest is None:
            return cls(START, {})
        known = json.loads(request.rest.state)
        return cls(Place(request.rest.at, known.pop("detector")), known)

    def is_far(self, at: int) -> bool:
        """Whether sample ``at`` is so far away that the answer may rest there."""
        return is_far(self.place.at, at)


def is_far(begun: int, at: int) -> bool:
    """Whether an answer that began at sample ``begun`` may rest at sample ``at``."""
    return at - begun >= max(REST_SECONDS * INPUT_SAMPLE_RATE, begun // SKIPPED)
