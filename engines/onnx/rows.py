"""Graphs that end with a transposition and a split, changed to give the matrix before the transposition.

The runtime transposes element by element, on one thread, and the split makes a copy. hibari's networks take a fifth
less time without these steps (docs/decisions/0016-constants-of-the-speech-engines.md).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def give(path: Path) -> bool:
    """Change the graph: its first output is the matrix, float32 [1, rows, all parts], in place of the parts.

    Returns False, and leaves the graph as it was, for another graph or where ``onnx`` is not installed.
    """
    if importlib.util.find_spec("onnx") is None:
        return False
    import onnx

    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    end = _end(graph)
    if end is None:
        return False
    transpose, split = end
    rows = onnx.helper.make_tensor_value_info(transpose.input[0], onnx.TensorProto.FLOAT, None)
    others = [output for output in graph.output if output.name not in split.output]
    del graph.output[:]
    graph.output.extend([rows, *others])
    for node in end:
        graph.node.remove(node)
    changed = path.with_suffix(".changed")
    onnx.save(model, changed)
    changed.replace(path)
    return True


def _end(graph: Any) -> tuple[Any, Any] | None:
    """The transposition and the split that only outputs follow."""
    from onnx import helper

    outputs = {output.name for output in graph.output}
    for split in graph.node:
        if split.op_type != "Split" or not outputs.issuperset(split.output):
            continue
        turned = split.input[0]
        made = [node for node in graph.node if turned in node.output]
        read = [node for node in graph.node if {turned, *split.output} & set(node.input)]
        if read == [split] and turned not in outputs and [node.op_type for node in made] == ["Transpose"]:
            attributes = {one.name: helper.get_attribute_value(one) for one in (*made[0].attribute, *split.attribute)}
            if (attributes.get("perm"), attributes.get("axis")) == ([0, 2, 1], 1):
                return made[0], split
    return None
