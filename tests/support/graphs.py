"""Small ONNX graphs for the tests: a convolution and two matrix products, 1.1 MB of weights, inside or beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

WIDTH = 512


def build(folder: Path, name: str = "model.onnx", *, beside: bool = False, seed: int = 0) -> Path:
    """``beside``: weights in ``name`` + ".data"."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(seed)
    weights = {
        "kernel": random.standard_normal((16, 4, 3)).astype(numpy.float32),
        "first": random.standard_normal((WIDTH, WIDTH)).astype(numpy.float32) / 20,
        "second": random.standard_normal((WIDTH, 4)).astype(numpy.float32) / 20,
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["convolved"], pads=[1, 1]),
        helper.make_node("Relu", ["convolved"], ["positive"]),
        helper.make_node("MatMul", ["positive", "first"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "second"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 4])],
        [numpy_helper.from_array(array, key) for key, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    settings: dict[str, Any] = {"save_as_external_data": beside, "location": f"{name}.data", "size_threshold": 1024}
    onnx.save(model, str(folder / name), **(settings if beside else {}))
    return folder / name


def run(session: Any) -> Any:
    x = numpy.random.default_rng(1).standard_normal((1, 4, WIDTH)).astype(numpy.float32)
    return session.run(None, {"x": x})[0]
