"""The speaker encoder's graph against its equations in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from support.torch_files import write_checkpoint

from edgeserve.engines.onnx import session
from edgeserve.errors import StoreError
from edgeserve.models.convert import ge2e


def weights() -> dict[str, Any]:
    random = numpy.random.default_rng(0)
    return {name: random.normal(scale=0.1, size=shape).astype(numpy.float32) for name, shape in ge2e.shapes().items()}


def sigmoid(values: Any) -> Any:
    return 1 / (1 + numpy.exp(-values))


def embeddings(made: dict[str, Any], states: Any) -> Any:
    """As PyTorch's LSTM computes: gates in the order input, forget, cell, output."""
    for layer in range(3):
        memory = hidden = numpy.zeros((len(states), 256))
        outputs = []
        for at in range(states.shape[1]):
            sums = states[:, at] @ made[f"lstm.weight_ih_l{layer}"].T + made[f"lstm.bias_ih_l{layer}"]
            sums = sums + hidden @ made[f"lstm.weight_hh_l{layer}"].T + made[f"lstm.bias_hh_l{layer}"]
            let_in, keep, new, let_out = numpy.split(sums, 4, axis=1)
            memory = sigmoid(keep) * memory + sigmoid(let_in) * numpy.tanh(new)
            hidden = sigmoid(let_out) * numpy.tanh(memory)
            outputs.append(hidden)
        states = numpy.stack(outputs, axis=1)
    found = numpy.maximum(0, hidden @ made["linear.weight"].T + made["linear.bias"])
    return found / numpy.linalg.norm(found, axis=1, keepdims=True)


def test_the_graph_computes_what_the_checkpoint_says(tmp_path: Path) -> None:
    made = weights()
    write_checkpoint(tmp_path / ge2e.CHECKPOINT, made, step=1)
    files = ge2e.convert(tmp_path, tmp_path / "out")
    assert set(files) == {"model", "data"}
    assert all(path.is_file() for path in files.values())
    mel = numpy.random.default_rng(1).uniform(0, 2, (3, 12, 40)).astype(numpy.float32)
    (found,) = session.run(session.session(files["model"]), None, {"mel": mel})
    assert found == pytest.approx(embeddings(made, mel), abs=1e-5)
    assert numpy.linalg.norm(found, axis=1) == pytest.approx(1)


def test_another_checkpoint_is_refused_by_the_tensor_that_differs(tmp_path: Path) -> None:
    made = weights()
    write_checkpoint(tmp_path / ge2e.CHECKPOINT, made | {"linear.bias": numpy.zeros(3, numpy.float32)})
    with pytest.raises(StoreError, match=r"linear\.bias is \(3,\); \(256,\) is expected"):
        ge2e.convert(tmp_path, tmp_path / "out")
    del made["lstm.bias_hh_l2"]
    write_checkpoint(tmp_path / ge2e.CHECKPOINT, made)
    with pytest.raises(StoreError, match=r"lstm\.bias_hh_l2 is missing"):
        ge2e.convert(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
