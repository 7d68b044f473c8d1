"""Tensors of a PyTorch checkpoint, and nothing else of it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.torch_files import write_checkpoint

from edgeserve.errors import StoreError
from edgeserve.models.convert import torch_tensors
from edgeserve.models.convert.torch_tensors import MAGIC, PROTOCOL

TENSORS: dict[str, Any] = {
    "weight": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
    "bias": numpy.asarray([0.5, -0.5], numpy.float32),
    "scale": numpy.asarray(7.0, numpy.float32),
}


def test_all_tensors_of_one_part(tmp_path: Path) -> None:
    read = torch_tensors.read(write_checkpoint(tmp_path / "a.pt", TENSORS, step=3), "model_state")
    assert {name: one.tolist() for name, one in read.items()} == {name: one.tolist() for name, one in TENSORS.items()}


class Order:
    """Would run a command in any other reader."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def test_no_code_of_a_checkpoint_runs(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "a.pt", TENSORS, extra=Order(f"touch {tmp_path}/ran"))
    with pytest.raises(StoreError, match=r"a\.pt: no PyTorch checkpoint .*asks for posix\.system, which no tensor"):
        torch_tensors.read(path, "model_state")
    path.write_bytes(pickle.dumps(Order(f"touch {tmp_path}/ran"), protocol=2))
    with pytest.raises(StoreError, match=r"posix\.system"):
        torch_tensors.read(path, "model_state")
    assert [one.name for one in tmp_path.iterdir()] == ["a.pt"]


@pytest.mark.parametrize("length", range(0, 700, 41))
def test_a_checkpoint_that_was_cut_is_an_error(tmp_path: Path, length: int) -> None:
    path = write_checkpoint(tmp_path / "a.pt", TENSORS)
    path.write_bytes(path.read_bytes()[: min(length, path.stat().st_size - 1)])
    with pytest.raises(StoreError, match=r"a\.pt: no PyTorch checkpoint of the older form"):
        torch_tensors.read(path, "model_state")


def test_other_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(pickle.dumps(MAGIC) + pickle.dumps(PROTOCOL + 1))
    with pytest.raises(StoreError, match="begin with PyTorch's number and version"):
        torch_tensors.read(path, "model_state")
    with pytest.raises(StoreError, match="KeyError: 'other'"):
        torch_tensors.read(write_checkpoint(path, TENSORS), "other")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        torch_tensors.read(tmp_path / "b.pt", "model_state")


def test_a_tensor_outside_its_storage_is_an_error(tmp_path: Path) -> None:
    class Longer(numpy.ndarray):  # type: ignore[type-arg]
        @property
        def shape(self) -> Any:
            return (9,)

    long = numpy.zeros(3, numpy.float32).view(Longer)
    with pytest.raises(StoreError, match=r"a tensor \(9,\) at 0 of 3 elements"):
        torch_tensors.read(write_checkpoint(tmp_path / "a.pt", {"x": long}), "model_state")
    columns = TENSORS["weight"].T
    with pytest.raises(StoreError, match="contiguous one is expected"):
        torch_tensors.read(write_checkpoint(tmp_path / "a.pt", {"x": columns}), "model_state")
