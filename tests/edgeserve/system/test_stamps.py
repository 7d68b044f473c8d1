"""Stamps of files: another one for each way to change a file."""

from __future__ import annotations

import os
from pathlib import Path

from edgeserve.system.stamps import stamp_with_rights, stamps


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


def test_other_rights_are_another_stamp_where_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(b"one")
    file.chmod(0o666)
    plain, before = stamps([file]), stamp_with_rights(file)
    assert stamp_with_rights(file) == before
    file.chmod(0o600)
    assert stamp_with_rights(file) != before
    assert stamps([file]) == plain, "a model is not loaded again for its rights"
    file.unlink()
    assert stamp_with_rights(file) is None
