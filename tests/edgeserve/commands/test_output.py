"""Output files appear complete, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve.commands.output import check_output, write_output
from edgeserve.errors import InvalidRequest

NOT_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.mark.parametrize("argv", [["speak", "hello", "-o", "{}"], ["transcribe", "nothing.wav", "-o", "{}"]])
def test_a_folder_is_refused_before_the_work(
    settings: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = settings / "folder.wav"
    folder.mkdir()
    assert run(*(one.format(folder) for one in argv)) == 1
    assert told(capsys) == [f"[ERROR] -o {folder}: is a directory; name a file in it"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no such directory"):
        check_output(str(tmp_path / "none" / "x.wav"))


@NOT_ROOT
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidRequest, match=r"-o .*x\.wav: .* cannot be written"):
        check_output(str(tmp_path / "x.wav"))
    tmp_path.chmod(0o700)


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_output(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["x.txt"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    write_output(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_full_disk_names_the_file_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"old")
    whole = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        whole(self, data[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*x\.txt'"):
        write_output(str(path), b"new and longer")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_that_is_full(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "full.wav").symlink_to("/dev/full")
    assert run("speak", "hello", "-o", "full.wav") == 1
    assert told(capsys) == ["[ERROR] full.wav: No space left on device"]
