"""``edgeserve service``: what it prints, and the files that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run, told


@pytest.fixture
def home(settings: Path) -> dict[str, str]:
    return {"HOME": str(settings), "XDG_CONFIG_HOME": str(settings / "config")}


linux = pytest.mark.skipif("sys.platform != 'linux'", reason="units are systemd's")


@linux
def test_units_are_printed_and_nothing_is_written(home: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("service", "install", "--user", "--socket", "--print", environ=home) == 0
    out = capsys.readouterr().out
    assert "ExecStart=" in out
    assert f"--config {home['HOME']}/models.toml --idle-exit 600" in out
    assert "ListenStream=127.0.0.1:" in out
    assert not (Path(home["HOME"]) / "config").exists()


@linux
def test_files_are_written_told_and_removed(home: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(home["XDG_CONFIG_HOME"]) / "systemd" / "user"
    assert run("service", "status", "--user", environ=home) == 1
    assert f"the service is not installed: there is none in {folder}" in capsys.readouterr().out
    assert run("service", "install", "--user", "--no-start", environ=home) == 0
    assert capsys.readouterr().out == f"wrote {folder / 'edgeserve.service'}\n"
    assert (folder / "edgeserve.service").read_text().startswith("# Written by `edgeserve service install`")
    assert (Path(home["HOME"]) / ".local/share/edgeserve").is_dir(), "a service whose home is read-only cannot make it"


def test_a_user_cannot_run_as_another(home: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("service", "install", "--user", "--run-as", "ada", "--print", environ=home) == 2
    assert "--run-as is for a service of the machine" in told(capsys)[0]


def test_nothing_to_uninstall(home: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("service", "uninstall", "--user", environ=home) == 0
    assert capsys.readouterr().out == "the service is not installed\n"
