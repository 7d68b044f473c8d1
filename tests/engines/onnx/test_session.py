from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgeserve.engines.onnx import session

pytestmark = pytest.mark.slow

OPEN = """
import edgeserve.engines.onnx.session, numpy
from onnx import TensorProto, helper
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
graph = helper.make_graph([helper.make_node("Neg", ["a"], ["b"])], "neg", [value("a")], [value("b")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
import onnxruntime
session = onnxruntime.InferenceSession(model.SerializeToString())
print(session.run(None, {"a": numpy.ones(1, numpy.float32)})[0][0])
"""


def test_the_runtime_keeps_no_record_of_its_use(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "CI")}
    environ |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", OPEN], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "-1.0"
    assert [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name] == []


REUSED = """
import sys, numpy
from pathlib import Path
from onnx import TensorProto, helper, save
from edgeserve.system import heap
from edgeserve.system import pages
from edgeserve.engines.onnx import session as ort
heap.tune()
shape = ["n"]
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
nodes = [helper.make_node("Neg", [f"v{n}"], [f"v{n + 1}"]) for n in range(6)]
last = helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1])
nodes.append(helper.make_node("ReduceSum", ["v6"], ["sum"]))
graph = helper.make_graph(nodes, "neg", [value("v0")], [last])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), sys.argv[1])
session = ort.session(Path(sys.argv[1]), threads=1, reuse=True, optimised=True)
ort.run(session, None, {"v0": numpy.ones(16, numpy.float32)}, reuse=True)
inputs = {"v0": numpy.ones(4 << 20, numpy.float32)}
before = pages.private_bytes()
found = [float(ort.run(session, None, inputs, reuse=True)[0].sum()) for _ in range(3)]
heap.trim()
print(found == [4 << 20] * 3, pages.private_bytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup")
def test_what_a_run_reuses_goes_back_at_its_end(tmp_path: Path) -> None:
    """All buffers of 16 MB go back. The memory of the outputs, here 4 bytes, stays until the next run or release."""
    command = [sys.executable, "-c", REUSED, str(tmp_path / "neg.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    right, left = done.stdout.split()
    assert right == "True"
    assert int(left) < 2_000_000


KEPT = (
    REUSED.partition("before = ")[0]
    + """
def ask(numbers, **how):
    ort.run(session, None, {"v0": numpy.ones(numbers, numpy.float32)}, reuse=True, **how)
    return pages.private_bytes() - before
large, small = 4 << 20, 1 << 20
inputs = [numpy.ones(n, numpy.float32) for n in (small, large)]
before = pages.private_bytes()
told = [ask(small, keep=1), ask(large, keep=4), ask(small, keep=1)]
ort.release()
told += [pages.private_bytes() - before, ask(large, passing=True)]
ort.empty()
print(*told, pages.private_bytes() - before)
"""
)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup")
def test_what_is_kept_serves_smaller_runs_and_goes_before_a_larger_one(tmp_path: Path) -> None:
    """Buffers of 4 MB, then of 16; what the smaller run kept is not held beside. Then of 16 for one request."""
    command = [sys.executable, "-c", KEPT, str(tmp_path / "neg.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    small, large, again, released, passing, emptied = map(int, done.stdout.split())
    buffer = 4 << 20
    assert buffer <= small < 2.5 * buffer
    assert 4 * buffer <= large < 9.5 * buffer
    assert again == pytest.approx(large, abs=buffer // 4)
    assert released < buffer // 4
    assert passing == pytest.approx(large, abs=buffer // 4)
    assert emptied < buffer // 4


LEFT = """
import sys, numpy, onnx
from pathlib import Path
from onnx import TensorProto, helper, save
from edgeserve.system import heap
from edgeserve.system import pages
from edgeserve.engines.onnx import session as ort
heap.tune()
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
def graph(*nodes, last):
    made = helper.make_graph(nodes, "g", [value("a")], [value(last)])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
assert graph(last="a").SerializeToString() == ort.NOTHING
save(graph(helper.make_node("Neg", ["a"], ["b"]), last="b"), sys.argv[1])
session = ort.session(Path(sys.argv[1]), threads=1, reuse=True, optimised=True)
large = numpy.ones(4 << 20, numpy.float32)
before = pages.private_bytes()
said = [float(ort.run(session, None, {"a": large}, reuse=True)[0].sum()) for _ in range(2)]
held = pages.private_bytes()
ort.release()
print(held - before, pages.private_bytes() - before, said == [-4194304.0] * 2)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup")
def test_the_outputs_of_the_last_run_go_back_on_release(tmp_path: Path) -> None:
    """All 16 MB go back, though they are the first region that the arena ever allocated."""
    command = [sys.executable, "-c", LEFT, str(tmp_path / "neg.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    held, left, right = done.stdout.split()
    assert right == "True"
    assert int(held) > 15_000_000
    assert int(left) < 500_000


@pytest.mark.parametrize(("version", "spins"), [("1.31.1", True), ("1.32.0", True), ("1.24.2", False)])
def test_threads_spin_only_where_it_can_be_short(monkeypatch: pytest.MonkeyPatch, version: str, spins: bool) -> None:
    monkeypatch.setattr("onnxruntime.__version__", version)
    settings = session.options()
    if spins:
        assert settings.get_session_config_entry("session.intra_op.spin_duration_us") == str(session.SPIN_MICROSECONDS)
        assert settings.get_session_config_entry("session.force_spinning_stop") == "1"
    else:
        assert settings.get_session_config_entry("session.intra_op.allow_spinning") == "0"
