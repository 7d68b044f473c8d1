"""The measurement of this machine, in a process of its own: ``python -m edgeserve.fit.trial '{...}'`` prints JSON.

The process ends with all memory that the measurement took, and a runtime that aborts ends no other process.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.messages import ChatRequest, FinishEvent, Sampling, TokenEvent
from edgeserve.named import make_engine
from edgeserve.system import bandwidth, cores
from edgeserve.system.probe import Probe

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}
"""Environment of the process."""
SIDE = 512
"""Rows and columns of the matrices: they stay in a processor's cache, so that arithmetic is measured, not memory."""
PRODUCTS = 60
"""Each takes some milliseconds. Other programs slow most of them down on a busy machine, and never make one faster."""
PROMPT = "The quick brown fox jumps over the lazy dog. Once upon a time"
TOKENS, WINDOW = 41, 8
"""Tokens of an answer, and the tokens after one another whose fastest run counts."""
ANSWERS = 2

Clock = Callable[[], float]


def operations(threads: int, clock: Clock = time.process_time) -> float:
    """Operations a second in float32 products, a product and a sum counting as two: the best of one thread, for each.

    The caller keeps the library of NumPy to one thread (``ONE_THREAD``): processor time is then the time of a quiet
    machine.
    """
    import numpy

    left = numpy.full((SIDE, SIDE), 0.5, numpy.float32)
    best = 0.0
    for _ in range(PRODUCTS):
        begun = clock()
        left @ left
        best = max(best, 2 * SIDE**3 / max(clock() - begun, 1e-9))
    return threads * best


def seconds_of_token(spec: ModelSpec, clock: Clock = time.perf_counter) -> float:
    """Seconds of one token of an answer by this model, in the fastest run of tokens. Raises EdgeserveError."""
    engine: Any = make_engine(spec)
    engine.open()
    try:
        engine.heat()
        return min(_answer(engine, clock) for _ in range(ANSWERS))
    finally:
        engine.close()


def _answer(engine: Any, clock: Clock) -> float:
    request = ChatRequest(prompt=PROMPT, max_tokens=TOKENS, sampling=Sampling(temperature=0))
    stamps, tokens = [], 0
    for event in engine.chat(request, threading.Event()):
        if isinstance(event, TokenEvent):
            stamps.append(clock())
        elif isinstance(event, FinishEvent):
            tokens = event.completion_tokens
    if len(stamps) <= WINDOW:
        return float("inf")
    runs = (late - early for early, late in zip(stamps, stamps[WINDOW:], strict=False))
    return min(runs) / WINDOW * len(stamps) / max(tokens, len(stamps))  # some tokens end no character


def main(given: Mapping[str, Any]) -> dict[str, float]:
    """The figures; ``given``: the fields of a ModelSpec of a chat model, or nothing."""
    threads = cores.usable()
    size = bandwidth.size_for(Probe().read_quick().available)
    found = {"bandwidth": bandwidth.measure(threads, size), "operations": operations(threads)}
    if given:
        files = {role: Path(path) for role, path in given["files"].items()}
        spec = ModelSpec(**{**given, "files": files})
        found["token_seconds"] = seconds_of_token(spec)
        # On one thread, processor time is the time of a quiet machine.
        found["token_seconds_alone"] = seconds_of_token(dataclasses.replace(spec, threads=1), time.process_time)
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
