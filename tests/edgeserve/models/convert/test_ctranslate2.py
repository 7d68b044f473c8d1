"""The checkpoint reader, on checkpoints written here."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
from support.checkpoints import write_checkpoint

from edgeserve.errors import StoreError
from edgeserve.models.convert.ctranslate2 import Checkpoint


def test_variables_and_aliases_are_read(tmp_path: Path) -> None:
    matrix = numpy.arange(6, dtype=numpy.float16).reshape(2, 3)
    path = write_checkpoint(tmp_path / "model.bin", {"a": matrix, "heads": numpy.array(6, numpy.int16)}, {"b": "a"})
    checkpoint = Checkpoint(path)
    assert set(checkpoint) == {"a", "heads"}
    assert (checkpoint.spec, checkpoint.revision) == ("WhisperSpec", 3)
    assert "b" in checkpoint
    assert checkpoint.weight("b").dtype == numpy.float32
    assert (checkpoint.weight("b") == matrix).all()
    assert checkpoint.integer("heads") == 6


def test_int8_is_scaled_back_row_by_row(tmp_path: Path) -> None:
    stored = numpy.array([[127, -64], [10, 20]], numpy.int8)
    scale = numpy.array([127.0, 10.0], numpy.float32)
    checkpoint = Checkpoint(write_checkpoint(tmp_path / "model.bin", {"w": stored, "w_scale": scale}))
    assert checkpoint.weight("w") == pytest.approx(numpy.array([[1.0, -64 / 127], [1.0, 2.0]]))


def test_int16_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(write_checkpoint(tmp_path / "model.bin", {"w": numpy.zeros((2, 2), numpy.int16)}))
    with pytest.raises(StoreError, match="stored as int16"):
        checkpoint.weight("w")


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="version 5; version 6 is expected"):
        Checkpoint(write_checkpoint(tmp_path / "model.bin", {}, version=5))


@pytest.mark.parametrize("keep", [3, 20, 60, 100])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = write_checkpoint(tmp_path / "model.bin", {"weights": numpy.zeros((8, 8), numpy.float32)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StoreError, match="pull it again"):
        Checkpoint(path)


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "model.bin", {"w": numpy.zeros(2, numpy.float32)})
    data = bytearray(path.read_bytes())
    data[data.index(b"w\0") + 2 + 1 + 4] = 9
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="unknown type 9"):
        Checkpoint(path)


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no variable encoder/x"):
        Checkpoint(write_checkpoint(tmp_path / "model.bin", {})).weight("encoder/x")


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    values = numpy.array([1.0, -2.5, 0.15625], numpy.float32)
    halves = (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
    checkpoint = Checkpoint(write_checkpoint(tmp_path / "model.bin", {"w": halves}))
    assert checkpoint.weight("w").tolist() == values.tolist()


def test_a_size_that_contradicts_the_shape_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "model.bin", {"w": numpy.zeros(2, numpy.float32)})
    data = bytearray(path.read_bytes())
    data[data.index(b"w\0") + 2 + 1] = 3
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"w has 8 bytes for the shape \(3,\)"):
        Checkpoint(path)
