from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OPEN = """
import engines.ort, numpy
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
