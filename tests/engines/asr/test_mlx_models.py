"""Memory that Whisper on MLX takes and returns, in a process set up as the server's is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.measured import told_by
from support.mlx import SLOW, needs_mlx
from support.speech import SENTENCES, spoken

Pulled = Callable[[str], Mapping[str, Path]]

MB = 1_000_000

pytestmark = [
    needs_mlx,
    SLOW,
    pytest.mark.models,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup"),
]

PROGRAM = """
import json, sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.system import heap
from edgeserve.messages import Pcm, TranscribeRequest
from edgeserve.system import pages
from edgeserve.engines.asr.mlx import MlxSpeechToText

heap.tune()
files = {role: Path(path) for role, path in json.loads(sys.argv[1]).items()}
engine = MlxSpeechToText(ModelSpec("asr", "whisper-tiny.en-mlx", "", files))
request = TranscribeRequest(Pcm(sys.stdin.buffer.read()))

def private():
    heap.collect()
    return pages.private_bytes()

told = {"before": private(), "estimate": engine.estimate().private, "window": engine.estimate().per_request}
engine.heat()
import mlx.core as mx
held = mx.get_active_memory()
mx.reset_peak_memory()
list(engine.transcribe(request, threading.Event()))
told |= {"hot": private(), "peak": mx.get_peak_memory() - held, "footprint": engine.footprint().private}
engine.close()
told["cycles"] = []
for _ in range(4):
    cold, estimate = private(), engine.estimate().private
    engine.heat()
    hot = private()
    engine.park()
    told["cycles"].append({"cold": cold, "hot": hot, "closed": private(), "estimate": estimate})
told["torch"] = "torch" in sys.modules
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(pulled: Pulled) -> Any:
    files = json.dumps({role: str(path) for role, path in pulled("whisper-tiny.en-mlx").items()})
    return told_by(PROGRAM, files, given=spoken(SENTENCES[0]).tobytes())


def test_the_estimates_hold_before_the_first_load_and_after(told: Any) -> None:
    assert told["estimate"] == pytest.approx(told["hot"] - told["before"], rel=0.15)
    assert told["window"] == pytest.approx(told["peak"], rel=0.15)
    again = told["cycles"][-1]
    assert again["estimate"] == pytest.approx(again["hot"] - again["cold"], rel=0.15)


def test_the_footprint_is_what_the_model_takes(told: Any) -> None:
    again = told["cycles"][-1]
    assert told["footprint"] == pytest.approx(again["hot"] - again["cold"], rel=0.15)


def test_parking_returns_what_was_taken(told: Any) -> None:
    last = told["cycles"][-1]
    assert last["closed"] - last["cold"] <= 0.05 * (last["hot"] - last["cold"])
    assert told["cycles"][-1]["closed"] - told["cycles"][1]["closed"] <= MB


def test_torch_is_not_needed(told: Any) -> None:
    assert not told["torch"]
