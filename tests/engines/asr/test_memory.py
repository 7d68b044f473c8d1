"""Memory that Whisper takes and returns, in a process set up as the server's is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.measured import told_by
from support.speech import SENTENCES, spoken

Pulled = Callable[[str], Mapping[str, Path]]

CYCLES = 4
MB = 1_000_000

pytestmark = [
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
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.onnx.crowd import Crowd

heap.tune()
Crowd.threads = lambda self: self.most  # a busy machine would change the number meanwhile
files = {role: Path(path) for role, path in json.loads(sys.argv[1]).items()}
options = {"quantization": sys.argv[2]}
engine = OnnxSpeechToText(ModelSpec("asr", "whisper-tiny.en", "", files, threads=2, options=options))
said = sys.stdin.buffer.read()
sound, long = Pcm(said), Pcm(said * (115 * 4 * 16_000 // len(said)))
dense = TranscribeRequest(long, word_timestamps=True, prompt="the quick brown fox " * 80, temperature=0.2)

def private():
    heap.collect()
    return pages.private_bytes()

def peak(request):
    '''What it takes above what is held before, by a look each millisecond.'''
    private()
    before, over, highest = pages.private_bytes_now(), threading.Event(), [0]
    def look():
        while not over.wait(0.001):
            highest[0] = max(highest[0], pages.private_bytes_now())  # a walk of all pages takes most of a core
    looking = threading.Thread(target=look)
    looking.start()
    list(engine.transcribe(request, threading.Event()))
    over.set()
    looking.join()
    return highest[0] - before

estimated, told = engine.estimate(), {"cycles": []}
for _ in range(int(sys.argv[3])):
    cold = private()
    engine.heat()
    list(engine.transcribe(TranscribeRequest(sound), threading.Event()))
    taken = engine.footprint()
    hot = private()
    told.setdefault("measured", taken.private + taken.mapped)
    engine.park()
    warm, mapped = private(), engine.footprint().mapped
    engine.close()
    told["cycles"].append({"cold": cold, "hot": hot, "warm": warm, "mapped": mapped, "closed": private()})
engine.heat()
told |= {"estimate": estimated.private + estimated.mapped, "window": estimated.per_request, "peak": peak(dense)}
told["plain"] = peak(TranscribeRequest(long))
print(json.dumps(told))
"""


@pytest.fixture(scope="module", params=["none", "int8"])
def told(pulled: Pulled, request: pytest.FixtureRequest) -> Any:
    files = json.dumps({role: str(path) for role, path in pulled("whisper-tiny.en").items()})
    return told_by(PROGRAM, files, request.param, str(CYCLES), given=spoken(SENTENCES[0]).tobytes())


def test_the_estimate_before_the_first_load_is_what_will_be_booked(told: Any) -> None:
    assert told["estimate"] == pytest.approx(told["measured"], rel=0.15)


def test_the_estimate_of_a_request_holds_for_the_longest_prompt(told: Any) -> None:
    """With words' times, which are looked for in the decoder's attention, and with all places taken. Looks at
    the process differ by 3%; with the encoder's memory kept beside, the peak is 1.33 times the estimate."""
    assert told["window"] == pytest.approx(told["peak"], rel=0.2)


def test_the_estimate_of_a_request_holds_beside_the_kept_memory_of_the_encoder(told: Any) -> None:
    assert 0.7 * told["window"] <= told["plain"] <= 1.25 * told["window"]


def test_warm_holds_little_and_no_weights(told: Any) -> None:
    assert all(one["mapped"] == 0 for one in told["cycles"])
    assert all(one["warm"] - one["cold"] < 5 * MB for one in told["cycles"][1:])


def test_closing_returns_what_was_taken(told: Any) -> None:
    """Private memory; of the weights, which are mapped, nothing is left."""
    last = told["cycles"][-1]
    assert last["closed"] - last["cold"] <= 0.05 * (last["hot"] - last["cold"]) + 0.2 * MB


def test_cycles_leave_nothing_behind(told: Any) -> None:
    assert told["cycles"][-1]["closed"] - told["cycles"][1]["closed"] <= 2 * MB * CYCLES / 20 + 0.5 * MB
