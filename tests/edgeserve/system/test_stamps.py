"""Stamps of files: another one for each way to change a file."""

from __future__ import annotations

import os
from pathlib import Path

from edgeserve.system.stamps import stamps


def test_a_file_that_nobody_touched_keeps_its_stamp(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(b"one")
    assert stamps([file]) == stamps([file])


def test_each_change_is_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(b"one")
    seen = [stamps([file])]
    other = tmp_path / "other"
    other.write_bytes(b"one")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)  # same size and time
    seen.append(stamps([file]))
    file.write_bytes(b"longer")
    seen.append(stamps([file]))
    os.utime(file, ns=(0, 0))
    seen.append(stamps([file]))
    file.unlink()
    seen.append(stamps([file]))
    assert all(one != two for number, one in enumerate(seen) for two in seen[:number])
    assert seen[-1] == {file: None}
