"""Minutes of speech and silence: what is heard, when, and in how much memory, in a process as the server's."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.measured import told_by
from support.speech import SENTENCES, STORY, spoken, word_error_rate

SAID = (*SENTENCES, *(f"{one.rstrip('.')}." for one in STORY.split(". ")))
"""Enough of them that the model does not know by heart what comes next."""
MINUTES = 4
PAUSES = (0.4, 3.1, 1.2, 6.0, 2.2, 0.8, 9.5)
MB = 1_000_000

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup"),
]

PROGRAM = """
import itertools, json, pickle, sys, threading
from pathlib import Path
import numpy
from edgeserve.engine import ModelSpec
from edgeserve.system import heap
from edgeserve.messages import SegmentEvent, TranscribeRequest
from edgeserve.system import pages
from edgeserve.engines.asr.onnx import OnnxSpeechToText

class Repeated:
    "Pause and sentence by turns, read ten seconds at a time."
    def pieces(self):
        held = numpy.empty(0, numpy.float32)
        for pause, sentence in plan:
            held = numpy.concatenate([held, numpy.zeros(pause, numpy.float32), sentences[sentence]])
            while len(held) >= 160_000:
                yield held[:160_000].tobytes()
                held = held[160_000:]
        yield held.tobytes()

heap.tune()
plan, sentences, files = pickle.load(sys.stdin.buffer)
engine = OnnxSpeechToText(ModelSpec("asr", "whisper-tiny.en", "", files, threads=2))
engine.heat()
told = {"segments": [], "private": []}
for event in engine.transcribe(TranscribeRequest(Repeated()), threading.Event()):
    if isinstance(event, SegmentEvent):
        told["segments"].append([event.start, event.end, event.text])
        told["private"].append(pages.private_bytes())
told["duration"] = event.duration
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def plan() -> list[tuple[int, int]]:
    """Samples of a pause, and the sentence after it, for all the minutes."""
    found: list[tuple[int, int]] = []
    length = 0
    while length < MINUTES * 60 * 16_000:
        number = len(found)
        found.append((int(PAUSES[number % len(PAUSES)] * 16_000), number % len(SAID)))
        length += found[-1][0] + len(spoken(SAID[found[-1][1]]))
    return found


@pytest.fixture(scope="module")
def told(plan: list[tuple[int, int]], pulled: Callable[[str], Mapping[str, Path]]) -> Any:
    given = (plan, [spoken(text) for text in SAID], dict(pulled("whisper-tiny.en")))
    return told_by(PROGRAM, given=pickle.dumps(given))


def test_every_word_is_heard(told: Any, plan: list[tuple[int, int]]) -> None:
    said = " ".join(SAID[number] for _, number in plan)
    assert word_error_rate(said, "".join(text for _, _, text in told["segments"])) <= 0.02


def test_times_are_right_within_half_a_second(told: Any, plan: list[tuple[int, int]]) -> None:
    """A sentence may be heard in several segments; none goes over a pause that is left out."""
    at = 0
    starts, ends = ([one[index] for one in told["segments"]] for index in (0, 1))
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    for pause, number in plan:
        samples = spoken(SAID[number])
        loud = (at + pause + numpy.flatnonzero(abs(samples) > 0.02)) / 16_000
        assert min(abs(start - loud[0]) for start in starts) <= 0.5
        assert min(abs(end - loud[-1]) for end in ends) <= 0.5
        at += pause + len(samples)
    assert told["duration"] == pytest.approx(at / 16_000)


def test_memory_does_not_grow_with_the_length(told: Any) -> None:
    private = told["private"]
    third = len(private) // 3
    assert max(private[-third:]) - max(private[:third]) <= 4 * MB
    assert max(private) - min(private) <= 80 * MB, "one window's activations and buffers"
