"""A file is on the disk before the file that names it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgeserve.models import disk


def test_a_file_appears_whole_and_its_folder_is_synced_last(tmp_path: Path) -> None:
    path, seen = tmp_path / "manifest.json", list[tuple[str, bool]]()
    path.write_text("old")

    def sync(what: Path) -> None:
        assert path.read_text() in ("old", "new")
        seen.append((what.name, path.read_text() == "new"))

    disk.write(path, "new", sync)
    assert seen == [(".manifest.json.new", False), (tmp_path.name, True)]
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("folder", [True, False])
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_only_a_file_system_without_folders_to_sync_is_excused(
    tmp_path: Path, folder: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path if folder else tmp_path / "file"
    if not folder:
        path.touch()

    def fails(descriptor: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", fails)
    if folder and number != errno.EIO:
        disk.sync(path)
    else:
        with pytest.raises(OSError, match="no"):
            disk.sync(path)


def test_files_and_folders_are_really_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path):
        disk.sync(path)
        assert synced.pop() == path.stat().st_ino
