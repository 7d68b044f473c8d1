"""Memory that the voice takes and returns, measured in a child process set up as the server is."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from edgeserve.engine import ModelSpec
from edgeserve.engines.tts import onnx

Pulled = Callable[[str], Mapping[str, Path]]
MB = 1 << 20
CYCLES = 8
PROGRAM = """
import json, sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.system import heap
from edgeserve.messages import SpeakRequest
from edgeserve.system import pages
from edgeserve.engines.onnx.crowd import Crowd
from edgeserve.engines.tts.onnx import OnnxTextToSpeech

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen. " * 3
heap.tune()
Crowd.threads = lambda self: self.most  # a busy machine would change the number meanwhile, and the memory with it
engine = OnnxTextToSpeech(ModelSpec("tts", "hibari", "", {"model": Path(sys.argv[1])}, threads=2))
footprint = lambda: [engine.footprint().mapped, engine.footprint().private]

def speak():
    engine.heat()
    for event in engine.speak(SpeakRequest(TEXT), threading.Event()):
        pass

def cycle():
    cold = pages.private_bytes()
    engine.open()
    warm = pages.private_bytes()
    speak()
    hot, at_hot = pages.private_bytes(), footprint()
    engine.park()
    parked, at_warm = pages.private_bytes(), footprint()
    speak()
    again = pages.private_bytes()
    engine.park()
    engine.close()
    return dict(cold=cold, warm=warm, hot=hot, parked=parked, again=again, closed=pages.private_bytes(),
                at_hot=at_hot, at_warm=at_warm)

said = engine.estimate()
cycles = [cycle() for _ in range(int(sys.argv[2]))]
print(json.dumps({"estimate": [said.mapped, said.private], "cycles": cycles}))
"""


@pytest.fixture(scope="module")
def measured(pulled: Pulled) -> dict[str, Any]:
    """Bytes of each step of each cycle; graph and tables were prepared before."""
    model = pulled("hibari")["model"]
    onnx.prepare(ModelSpec("tts", "hibari", "", {"model": model}), lambda done, total: None)
    environ = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", PROGRAM, str(model), str(CYCLES)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(sys.platform != "linux", reason="the figures are those of glibc and Linux"),
]


def test_the_estimate_is_near_the_first_load(measured: dict[str, Any]) -> None:
    said, took = sum(measured["estimate"]), sum(measured["cycles"][0]["at_hot"])
    assert said == pytest.approx(took, rel=0.15)


def test_the_estimate_is_near_later_loads(measured: dict[str, Any]) -> None:
    for one in measured["cycles"][1:]:
        assert sum(measured["estimate"]) == pytest.approx(sum(one["at_hot"]), rel=0.15)


def test_warm_has_no_mapped_page_and_as_much_private_memory_as_was_opened(measured: dict[str, Any]) -> None:
    for one in measured["cycles"][1:]:
        assert one["at_warm"][0] == 0
        assert one["parked"] - one["warm"] < 1 * MB


def test_weights_are_not_private(measured: dict[str, Any]) -> None:
    """Measured: 7 to 9 MB for the sessions of the voice and its phonemizer; with the weights of both copied, 17."""
    assert max(one["at_warm"][1] for one in measured["cycles"][1:]) < 12 * MB


def test_the_footprint_is_what_the_process_took(measured: dict[str, Any]) -> None:
    """The heap's free pages do not count: they return with the next step down. Mostly they take 9 MB, and more where
    two sentences happened to end at once."""
    for one in measured["cycles"][1:]:
        assert one["at_warm"][1] == pytest.approx(one["parked"] - one["cold"], abs=1 * MB)
    free = [one["hot"] - one["cold"] - one["at_hot"][1] for one in measured["cycles"][1:]]
    assert statistics.median(free) < 12 * MB
    assert max(free) < 24 * MB


def test_each_step_down_returns_what_was_taken(measured: dict[str, Any]) -> None:
    for one in measured["cycles"][1:]:
        assert one["again"] - one["closed"] >= 0.95 * (one["again"] - one["cold"])
        assert one["parked"] - one["warm"] <= max(0.05 * (one["hot"] - one["warm"]), 1 * MB)


def test_cycles_do_not_add_up(measured: dict[str, Any]) -> None:
    closed = [one["closed"] for one in measured["cycles"]]
    assert closed[-1] - closed[1] <= 2 * MB
