"""Transcripts of samples by a speech-to-text engine, and a request that is given up on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from support.contract import resumed, told

from edgeserve.messages import Pcm, TranscribeRequest


def transcribe(engine: Any, samples: Any, **settings: Any) -> list[Any]:
    """All events that a reader gets, for float32 samples at 16 kHz."""
    return told(engine.transcribe(asked(samples, **settings), threading.Event()))


def rested(engine: Any, samples: Any, **settings: Any) -> tuple[list[Any], int]:
    """As ``transcribe``, of an answer that rests wherever it may; and how often it did."""
    rests = 0

    def answer(request: TranscribeRequest) -> Iterator[Any]:
        nonlocal rests
        rests += request.rest is not None
        return engine.transcribe(request, threading.Event())

    return list(resumed(answer, asked(samples, **settings))), rests


def asked(samples: Any, **settings: Any) -> TranscribeRequest:
    import numpy

    return TranscribeRequest(Pcm(numpy.asarray(samples, "<f4").tobytes()), **settings)


class CancelAfter:
    """Set from the time on that it was asked so often; ``asked`` counts on."""

    def __init__(self, times: int) -> None:
        self.asked = 0
        self._times = times

    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > self._times
