"""The key of a prepared model changes with its files and its machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgeserve.engines.onnx.key import Key, Machine, this_machine

MACHINE = Machine("1.31", "x86_64 0")


def test_this_machine_is_known_with_its_runtime() -> None:
    import onnxruntime

    assert this_machine().runtime.startswith(onnxruntime.__version__)
    assert len(this_machine().cpu.split()[-1]) == 16


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"weights")
    return path


def test_a_file_of_the_same_size_and_time_is_not_read_again(file: Path) -> None:
    key, written = Key.of([file], MACHINE), file.stat().st_mtime_ns
    file.write_bytes(b"Weights")
    os.utime(file, ns=(written, written))
    assert key.again([file], MACHINE) == key


def test_the_same_content_of_another_time_is_the_same_model(file: Path, tmp_path: Path) -> None:
    key = Key.of([file], MACHINE)
    file.write_bytes(b"weights")
    again = key.again([file], MACHINE)
    assert again is not None
    assert again.digest == key.digest


@pytest.mark.parametrize("content", [b"longer weights", b"Weights"], ids=["size", "content"])
def test_another_content_is_another_model(file: Path, content: bytes) -> None:
    key = Key.of([file], MACHINE)
    file.write_bytes(content)
    assert key.again([file], MACHINE) is None
    assert Key.of([file], MACHINE).digest != key.digest


def test_another_machine_or_file_is_another_key(file: Path) -> None:
    key, other = Key.of([file], MACHINE), Machine("1.32", "x86_64 0")
    assert key.again([file], other) is None
    assert Key.of([file], other).digest != key.digest
    assert key.again([file, file.with_name("model.onnx.data")], MACHINE) is None
