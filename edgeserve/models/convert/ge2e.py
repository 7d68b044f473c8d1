"""GE2E speaker encoder: Resemblyzer's checkpoint into one ONNX graph.

    model.onnx   mel [n, t, 40]: power of the mel bands → embedding [n, 256], of length 1

Three LSTM layers of 256, the last state of the last layer, a projection, ReLU, and division by the length
(Wan et al. 2018, "Generalized End-to-End Loss for Speaker Verification").
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.errors import StoreError
from edgeserve.models.convert import torch_tensors
from edgeserve.models.convert.checkpoint import Progress, new_folder
from edgeserve.models.convert.graph import GraphWriter, load_onnx

CHECKPOINT, PART = "pretrained.pt", "model_state"
GRAPH = "model.onnx"
BANDS, WIDTH, LAYERS = 40, 256, 3
GATES = (0, 3, 1, 2)
"""ONNX orders the gates input, output, forget, cell; PyTorch orders them input, forget, cell, output."""


def convert(checkpoint: Path, out: Path, progress: Progress | None = None) -> Mapping[str, Path]:
    """Write the graph into a new folder ``out``; returns its files by role.

    Raises StoreError for a checkpoint of another form, and DiskFull.
    """
    tell = progress or (lambda stage, share: None)
    load_onnx()
    weights = torch_tensors.read(checkpoint / CHECKPOINT, PART)
    _check(checkpoint / CHECKPOINT, weights)
    with new_folder(out) as partial, GraphWriter(partial / GRAPH) as graph:
        _write(graph, weights)
        graph.save("ge2e")
    tell("done", 1.0)
    return {"model": out / GRAPH, "data": out / f"{GRAPH}.data"}


def shapes() -> Mapping[str, tuple[int, ...]]:
    """Shapes of the tensors that the graph is made of, by name."""
    found: dict[str, tuple[int, ...]] = {"linear.weight": (WIDTH, WIDTH), "linear.bias": (WIDTH,)}
    for layer in range(LAYERS):
        found[f"lstm.weight_ih_l{layer}"] = 4 * WIDTH, WIDTH if layer else BANDS
        found[f"lstm.weight_hh_l{layer}"] = 4 * WIDTH, WIDTH
        found[f"lstm.bias_ih_l{layer}"] = found[f"lstm.bias_hh_l{layer}"] = (4 * WIDTH,)
    return found


def _check(path: Path, weights: Mapping[str, Any]) -> None:
    for name, shape in shapes().items():
        if name not in weights or weights[name].shape != shape:
            there = weights[name].shape if name in weights else "missing"
            raise StoreError(f"{path}: {name} is {there}; {shape} is expected of Resemblyzer's speaker encoder")


def _write(graph: GraphWriter, weights: Mapping[str, Any]) -> None:
    import numpy

    def gates(name: str) -> Any:
        blocks = numpy.split(numpy.asarray(weights[name], numpy.float32), 4)
        return numpy.concatenate([blocks[at] for at in GATES])[None]

    mel = graph.input("mel", ["n", "t", BANDS])
    states = graph.node("Transpose", mel, perm=[1, 0, 2])
    last = ""
    for layer in range(LAYERS):
        bias = numpy.concatenate([gates(f"lstm.bias_ih_l{layer}"), gates(f"lstm.bias_hh_l{layer}")], axis=1)
        inputs = [
            states,
            graph.constant(f"input_{layer}", gates(f"lstm.weight_ih_l{layer}")),
            graph.constant(f"recurrent_{layer}", gates(f"lstm.weight_hh_l{layer}")),
            graph.constant(f"bias_{layer}", bias),
        ]
        every, last, _ = graph.node("LSTM", *inputs, outputs=3, hidden_size=WIDTH)
        states = graph.node("Squeeze", every, graph.integers(1))
    state = graph.node("Squeeze", last, graph.integers(0))
    projection = graph.constant("projection", numpy.asarray(weights["linear.weight"], numpy.float32).T)
    product = graph.node("MatMul", state, projection)
    biased = graph.node("Add", product, graph.constant("bias", numpy.asarray(weights["linear.bias"], numpy.float32)))
    unit = graph.node("LpNormalization", graph.node("Relu", biased), axis=1, p=2)
    graph.output("embedding", ["n", WIDTH], unit)
