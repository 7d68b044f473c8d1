"""Whisper on MLX with real weights, in a process set up as the server's is: its memory, its text and its words.

One process does for all, since a window takes 15 s of processor time without Metal.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.measured import told_by
from support.mlx import SLOW, needs_mlx
from support.speech import SENTENCES, spoken
from support.transcripts import transcribe

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText

Pulled = Callable[[str], Mapping[str, Path]]

MB = 1_000_000
SENTENCE = SENTENCES[3]
PLAIN = {"quantization": "none", "vad": False}
"""Whisper on ONNX Runtime as MLX has it: in floats, listening to all."""

pytestmark = [
    needs_mlx,
    SLOW,
    pytest.mark.models,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup"),
]

PROGRAM = """
import dataclasses, json, sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.system import heap
from edgeserve.messages import Pcm, TranscribeRequest
from edgeserve.system import pages
from edgeserve.engines.asr.mlx import MlxSpeechToText

heap.tune()
files = {role: Path(path) for role, path in json.loads(sys.argv[1]).items()}
engine = MlxSpeechToText(ModelSpec("asr", "whisper-tiny.en-mlx", "", files))
request = TranscribeRequest(Pcm(sys.stdin.buffer.read()), word_timestamps=True)

def private():
    heap.collect()
    return pages.private_bytes()

told = {"before": private(), "estimate": engine.estimate().private, "window": engine.estimate().per_request}
engine.heat()
told["hot"] = private()  # before times of words, for which Numba compiles
import mlx.core as mx
held = mx.get_active_memory()
mx.reset_peak_memory()
told["events"] = [dataclasses.asdict(one) for one in engine.transcribe(request, threading.Event()) if one]
told |= {"peak": mx.get_peak_memory() - held, "footprint": engine.footprint().private}
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
    return told_by(PROGRAM, files, given=spoken(SENTENCE).tobytes())


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


def test_text_and_words_are_those_of_the_engine_on_onnx_runtime(told: Any, pulled: Pulled) -> None:
    engine = OnnxSpeechToText(ModelSpec("asr", "", "", pulled("whisper-tiny.en"), threads=2, options=PLAIN))
    engine.heat()
    events = transcribe(engine, spoken(SENTENCE), word_timestamps=True)
    engine.close()
    *theirs, their_end = json.loads(json.dumps([dataclasses.asdict(one) for one in events]))
    *ours, our_end = told["events"]
    assert our_end == their_end
    assert [one["text"] for one in ours] == [one["text"] for one in theirs]
    assert [one["tokens"] for one in ours] == [one["tokens"] for one in theirs]
    assert [one["avg_logprob"] for one in ours] == pytest.approx([one["avg_logprob"] for one in theirs], abs=0.02)
    words = [(one, other) for left, right in zip(ours, theirs, strict=True) for one, other in _pairs(left, right)]
    assert len(words) == len(SENTENCE.split())
    assert all(abs(one["start"] - other["start"]) <= 0.3 for one, other in words)


def _pairs(left: Any, right: Any) -> Iterator[tuple[Any, Any]]:
    assert [one["text"] for one in left["words"]] == [one["text"] for one in right["words"]]
    return zip(left["words"], right["words"], strict=True)
