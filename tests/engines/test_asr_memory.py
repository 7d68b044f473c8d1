"""What Whisper takes and gives back, in a process set up as the server's is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.speech import SENTENCES, spoken

Pulled = Callable[[str], Mapping[str, Path]]

ROOT = Path(__file__).parents[2]
CYCLES = 8
MB = 1_000_000

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup"),
]

PROGRAM = """
import json, sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.memory import heap
from edgeserve.messages import Pcm, TranscribeRequest
from engines import pages
from engines.asr_onnx import OnnxSpeechToText

heap.tune()
files = {role: Path(path) for role, path in json.loads(sys.argv[1]).items()}
engine = OnnxSpeechToText(ModelSpec("asr", "whisper-tiny.en", "", files, threads=2))
request = TranscribeRequest(Pcm(sys.stdin.buffer.read()))

def private():
    heap.trim()
    return pages.private_bytes()

before, told = private(), {"estimate": engine.estimate().private + engine.estimate().mapped, "cycles": []}
for _ in range(int(sys.argv[2])):
    cold = private()
    engine.heat()
    list(engine.transcribe(request, threading.Event()))
    hot = private()
    told.setdefault("measured", hot - before + engine.footprint().mapped)
    engine.park()
    warm, mapped = private(), engine.footprint().mapped
    engine.close()
    told["cycles"].append({"cold": cold, "hot": hot, "warm": warm, "mapped": mapped, "closed": private()})
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(pulled: Pulled) -> Any:
    files = json.dumps({role: str(path) for role, path in pulled("whisper-tiny.en").items()})
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, files, str(CYCLES)],
        input=spoken(SENTENCES[0]).tobytes(),
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONMALLOC": "malloc"},
    )
    return json.loads(ended.stdout)


def test_the_estimate_before_the_first_load_holds(told: Any) -> None:
    assert told["estimate"] == pytest.approx(told["measured"], rel=0.15)


def test_warm_holds_little_and_no_weights(told: Any) -> None:
    assert all(one["mapped"] == 0 for one in told["cycles"])
    assert all(one["warm"] - one["cold"] < 5 * MB for one in told["cycles"][1:])


def test_closing_returns_what_was_taken(told: Any) -> None:
    """Private memory; of the weights, which are mapped, nothing is left."""
    last = told["cycles"][-1]
    assert last["closed"] - last["cold"] <= 0.05 * (last["hot"] - last["cold"]) + 0.2 * MB


def test_cycles_leave_nothing_behind(told: Any) -> None:
    assert told["cycles"][-1]["closed"] - told["cycles"][1]["closed"] <= 2 * MB * CYCLES / 20 + 0.5 * MB
