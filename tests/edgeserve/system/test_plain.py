"""A pipe, a device or a folder in the place of a file is refused at once, and its readers go on without the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgeserve.errors import ConfigError
from edgeserve.fit import calibration, tuned
from edgeserve.keys import file
from edgeserve.memory import peaks
from edgeserve.system import plain


@pytest.fixture(params=["pipe", "device", "folder"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path that leads to no plain file."""
    path = tmp_path / "memory.json"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()
    return path


def test_a_plain_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    assert plain.read(path) == b"text"


def test_no_reader_waits_for_anything_else(other: Path) -> None:
    with pytest.raises(OSError, match="no plain file"):
        plain.read(other)
    assert tuned.read(other, other) is None
    assert calibration.read(other) is None
    with pytest.raises(ConfigError, match="no plain file"):
        file.read(other)
    assert peaks.read(other) == {}


@pytest.mark.parametrize("damage", ["[" * 200_000, '{"peaks": {"a": {"mapped": 1e999}}}'])
def test_damage_of_any_kind_costs_the_figures_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "memory.json"
    path.write_text(damage)
    assert calibration.read(path) is None
    assert peaks.read(path) == {}
