"""Both speech engines in one process, which share ONNX Runtime's arena: each returns what it took by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.measured import told_by
from support.speech import SENTENCES, spoken

Pulled = Callable[[str], Mapping[str, Path]]
MB = 1 << 20
ORDER = ("tts", "asr") * 4 + ("asr", "tts", "tts", "asr")
WARM_UP = 4
"""Uses that do not count: the runtime's one-off costs are paid in them."""

PROGRAM = """
import json, sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.system import heap
from edgeserve.messages import Pcm, SpeakRequest, TranscribeRequest
from edgeserve.system import pages
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.onnx.crowd import Crowd
from edgeserve.engines.tts.onnx import OnnxTextToSpeech

heap.tune()
Crowd.threads = lambda self: self.most  # a busy machine would change the number meanwhile, and the memory with it
files = json.loads(sys.argv[1])
spec = lambda job: ModelSpec(job, job, "", {role: Path(path) for role, path in files[job].items()}, threads=2)
asr, tts = OnnxSpeechToText(spec("asr")), OnnxTextToSpeech(spec("tts"))
sound = Pcm(sys.stdin.buffer.read())
use = {
    "asr": (asr, lambda: list(asr.transcribe(TranscribeRequest(sound), threading.Event()))),
    "tts": (tts, lambda: list(tts.speak(SpeakRequest("Good morning, I have had a fever."), threading.Event()))),
}
cycles = []
for job in json.loads(sys.argv[2]):
    engine, ask = use[job]
    cold = pages.private_bytes()
    engine.heat()
    assert ask()
    hot = pages.private_bytes()
    engine.park()
    engine.close()
    cycles.append(dict(job=job, cold=cold, hot=hot, closed=pages.private_bytes()))
print(json.dumps(cycles))
"""

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup"),
]


@pytest.fixture(scope="module")
def cycles(pulled: Pulled) -> Any:
    files = {job: {role: str(path) for role, path in pulled(name).items()} for job, name in MODELS.items()}
    return told_by(PROGRAM, json.dumps(files), json.dumps(ORDER), given=spoken(SENTENCES[0]).tobytes())


MODELS = {"asr": "whisper-tiny.en", "tts": "hibari"}


def test_each_returns_what_it_took_whoever_was_there_before(cycles: Any) -> None:
    for one in cycles[WARM_UP:]:
        took = one["hot"] - one["cold"]
        assert took > 1 * MB  # how much it is, is the processor's: kernels and threads have scratch memory of their own
        assert one["hot"] - one["closed"] >= 0.95 * took - 0.2 * MB, one


def test_taking_turns_leaves_nothing_behind(cycles: Any) -> None:
    assert cycles[-1]["closed"] - cycles[WARM_UP - 1]["closed"] <= 2 * MB
