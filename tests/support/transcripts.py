"""Transcripts of samples by a speech-to-text engine, and a request that is given up on the way."""

from __future__ import annotations

import threading
from typing import Any

from edgeserve.messages import Pcm, TranscribeRequest


def transcribe(engine: Any, samples: Any, **settings: Any) -> list[Any]:
    """All events for float32 samples at 16 kHz."""
    import numpy

    request = TranscribeRequest(Pcm(numpy.asarray(samples, "<f4").tobytes()), **settings)
    return [event for event in engine.transcribe(request, threading.Event()) if event is not None]


class CancelAfter:
    """Set from the time on that it was asked so often; ``asked`` counts on."""

    def __init__(self, times: int) -> None:
        self.asked = 0
        self._times = times

    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > self._times
