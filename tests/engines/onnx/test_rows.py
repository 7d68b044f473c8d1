"""Graphs that transpose and split last, and others that must stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

from edgeserve.engines.onnx import rows as onnx_rows
from edgeserve.engines.onnx import session

ROWS, PARTS = 7, 3


def built(folder: Path, *, perm: list[int], axis: int, outputs: list[str], tail: list[Any] | None = None) -> Path:
    """x, float32 [1, rows, 6], doubled, turned and cut in three; its sums as well."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("Transpose", ["doubled"], ["turned"], perm=perm),
        helper.make_node("Split", ["turned"], ["a", "b", "c"], axis=axis, num_outputs=PARTS),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        *(tail or []),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "rows", 6])
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "turning", [x], made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def run(path: Path) -> list[Any]:
    x = numpy.arange(ROWS * 6, dtype=numpy.float32).reshape(1, ROWS, 6)
    return session.run(session.session(path), None, {"x": x})


def test_the_rows_hold_the_parts_side_by_side(tmp_path: Path) -> None:
    path = built(tmp_path, perm=[0, 2, 1], axis=1, outputs=["a", "sum", "b", "c"])
    a, total, b, c = run(path)
    assert onnx_rows.give(path)
    rows, same = run(path)
    assert rows.shape == (1, ROWS, 6)
    assert (numpy.concatenate([a, b, c], axis=1)[0] == rows[0].T).all()
    assert same == total


OTHERS: dict[str, dict[str, Any]] = {
    "another permutation": {"perm": [0, 1, 2], "axis": 1, "outputs": ["a", "b", "c", "sum"]},
    "cut the other way": {"perm": [0, 2, 1], "axis": 0, "outputs": ["a", "b", "c", "sum"]},
    "a part is no output": {"perm": [0, 2, 1], "axis": 1, "outputs": ["a", "b", "sum"]},
    "what is turned is one, too": {"perm": [0, 2, 1], "axis": 1, "outputs": ["a", "b", "c", "turned"]},
    "a part is read again": {
        "perm": [0, 2, 1],
        "axis": 1,
        "outputs": ["a", "b", "c", "d"],
        "tail": [helper.make_node("Neg", ["a"], ["d"])],
    },
    "what is turned is read again": {
        "perm": [0, 2, 1],
        "axis": 1,
        "outputs": ["a", "b", "c", "d"],
        "tail": [helper.make_node("Neg", ["turned"], ["d"])],
    },
}


@pytest.mark.parametrize("graph", OTHERS.values(), ids=OTHERS)
def test_other_graphs_stay_as_they_are(tmp_path: Path, graph: dict[str, Any]) -> None:
    path = built(tmp_path, **graph)
    before = path.read_bytes()
    assert not onnx_rows.give(path)
    assert path.read_bytes() == before


def test_without_the_library_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built(tmp_path, perm=[0, 2, 1], axis=1, outputs=["a", "b", "c"])
    before = path.read_bytes()
    monkeypatch.setattr(onnx_rows.importlib.util, "find_spec", lambda name: None)
    assert not onnx_rows.give(path)
    assert path.read_bytes() == before
