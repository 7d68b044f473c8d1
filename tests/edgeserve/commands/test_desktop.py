"""The page is opened on a desktop only, and the address is printed in any case."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands import run

from edgeserve import server
from edgeserve.commands import desktop


def test_without_a_desktop_nothing_is_started() -> None:
    started: list[Sequence[str]] = []
    line = desktop.show("http://127.0.0.1:1/", {"TERM": "xterm"}, started.append, platform="linux")
    assert line == "This machine has no desktop; open http://127.0.0.1:1/ in a browser"
    assert started == []


@pytest.mark.parametrize(
    ("environ", "platform"), [({"DISPLAY": ":0"}, "linux"), ({"WAYLAND_DISPLAY": "wayland-0"}, "linux"), ({}, "darwin")]
)
def test_a_desktop_is_asked_to_open_it(environ: dict[str, str], platform: str) -> None:
    started: list[Sequence[str]] = []
    line = desktop.show("http://127.0.0.1:1/", environ, started.append, platform)
    assert started == [[*desktop.OPENER, "http://127.0.0.1:1/"]]
    assert "open it in a browser" in line, "for a desktop without a browser"


def test_a_module_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "webbrowser.py").write_text("open('taken', 'w')")
    command = [*desktop.OPENER, "http://127.0.0.1:1/"]
    subprocess.run(command, cwd=tmp_path, env={"BROWSER": "true"}, timeout=60, check=True)
    assert not (tmp_path / "taken").exists()


def test_serve_opens_the_address_that_this_machine_reaches(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (settings / "models.toml").write_text("")
    monkeypatch.setattr(server, "serve", lambda config, store, on_ready, **rest: on_ready("http://0.0.0.0:81") or 0)
    assert run("serve", "--open") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("open http://127.0.0.1:81/ in a browser")
    assert run("serve") == 0
    assert "no desktop" not in capsys.readouterr().out
