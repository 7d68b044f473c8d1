"""Configured models that are missing are pulled before the server begins, by a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands import run, told
from support.server import until

from edgeserve import cli, listening, server
from edgeserve.commands import Call, supply
from edgeserve.config import load
from edgeserve.models.store import Store
from edgeserve.system.notify import Notifier


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The names of each pull; none of them brings anything, and no server is started."""
    asked: list[Sequence[str]] = []

    def pull(call: Call, names: Sequence[str]) -> int:
        asked.append(names)
        return 0

    monkeypatch.setattr(supply, "pull", pull)
    monkeypatch.setattr(server, "serve", lambda *ignored, **settings: 0)
    return asked


def write(text: str) -> None:
    Path("models.toml").write_text(text)


def test_a_bare_machine_pulls_the_starter_models(settings: Path, pulled: list[Sequence[str]]) -> None:
    (settings / "models.toml").unlink()
    assert run("serve", "--port", "0", environ={"EDGESERVE_MODELS_DIR": str(settings / "none")}) == 0
    assert pulled == [["smollm2-135m-instruct", "whisper-tiny.en", "hibari"]]


def test_models_that_are_here_are_not_pulled(models: dict[str, str], pulled: list[Sequence[str]]) -> None:
    write('[tts]\nmodel = "hibari"\n')
    assert run("serve", "--port", "0", environ=models) == 0
    assert pulled == []


def test_damaged_ones_are_and_each_once(models: dict[str, str]) -> None:
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "hibari.onnx").unlink()
    write('[tts]\nmodel = "hibari"\n[models.b]\njob = "tts"\nmodel = "hibari"\n[llm]\nmodel = "hub:a/b/c.gguf"\n')
    assert supply.missing(load({}), Store(Path(models["EDGESERVE_MODELS_DIR"]))) == ["hub:a/b/c.gguf", "hibari"]


def test_paths_and_unknown_names_are_left_to_the_server(models: dict[str, str]) -> None:
    write('[llm]\nmodel = "./gone.gguf"\n[tts]\nmodel = "hibary"\n')
    assert supply.missing(load({}), Store(Path(models["EDGESERVE_MODELS_DIR"]))) == []


def test_no_pull_ends_with_the_command_instead(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "models.toml").unlink()
    environ = {"EDGESERVE_MODELS_DIR": str(settings / "none")}
    assert cli.main(["serve", "--port", "0", "--no-pull"], environ=environ) == 1
    assert "`edgeserve pull starter`" in told(capsys)[-1]


def test_a_port_in_use_is_told_before_a_pull(
    settings: Path, pulled: list[Sequence[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (settings / "models.toml").unlink()
    environ = {"EDGESERVE_MODELS_DIR": str(settings / "none")}
    holder = listening.listen("127.0.0.1", 0)
    holder.listen()
    try:
        port = str(holder.getsockname()[1])
        assert run("serve", "--port", port, environ=environ) == 2
        assert f"cannot listen on 127.0.0.1 port {port}" in told(capsys)[0]
        assert pulled == []
        assert run("serve", "--port", port, environ={**environ, "LISTEN_FDS": "1"}) == 0, "systemd holds it for us"
    finally:
        holder.close()


def test_an_address_that_needs_a_key_is_told_before_a_pull(
    settings: Path, pulled: list[Sequence[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (settings / "models.toml").unlink()
    environ = {"EDGESERVE_MODELS_DIR": str(settings / "none")}
    assert run("serve", "--host", "0.0.0.0", "--port", "0", environ=environ) == 2
    assert "without a key" in told(capsys)[0]
    assert pulled == []


def test_the_line_before_a_pull_names_models_and_size() -> None:
    line = supply.announcement(["hibari", "hub:a/b/c.gguf"])
    assert line == ("[INFO] not on this device: hibari, hub:a/b/c.gguf, about 7.6 MB; pulling (--no-pull ends instead)")
    assert "about" not in supply.announcement(["hub:a/b/c.gguf"])


def test_the_pull_is_a_command_of_its_own(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A name that no catalogue has: the command fails without a network, and the server goes on to its own error."""
    (settings / "models.toml").unlink()
    args = cli.make_parser().parse_args(["serve", "--config", str(settings / "other.toml")])
    (settings / "other.toml").write_text("")
    environ = {"PATH": os.environ["PATH"], "HOME": str(settings), supply.ELSEWHERE: "http://127.0.0.1:9"}
    assert supply.pull(Call(args, environ), ["no-such-model"]) == 0
    out, errors = capfd.readouterr()
    assert out == "", "the greeting of the server is the first line of its stdout"
    first, second = errors.splitlines()
    assert first.startswith("[INFO] not on this device: no-such-model; ")
    assert second.startswith("[ERROR] no model is called 'no-such-model'")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_pull_too(number: signal.Signals, tmp_path: Path) -> None:
    mark = tmp_path / "began"
    child = f"import pathlib, signal; pathlib.Path({str(mark)!r}).write_text('x'); signal.pause()"

    def signalled() -> None:
        until(mark.exists)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    sender = threading.Thread(target=signalled)
    sender.start()
    try:
        assert supply.run([sys.executable, "-c", child], os.environ) == number
    finally:
        sender.join()
    assert signal.getsignal(number) is before


def test_an_ignored_hangup_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import os, signal; os.kill(os.getppid(), signal.SIGHUP)"
        assert supply.run([sys.executable, "-c", code], os.environ) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_service_manager_is_asked_for_more_time(tmp_path: Path) -> None:
    """Its words: sd_notify(3)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        waiting = threading.Thread(
            target=supply.wait, args=(child, Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}), 0.01)
        )
        waiting.start()
        try:
            assert manager.recv(100) == b"STATUS=pulling models"
            assert manager.recv(100) == b"EXTEND_TIMEOUT_USEC=30000"
        finally:
            child.communicate(b"\n")
            waiting.join()
    assert child.returncode == 0


def test_a_child_that_fails_is_no_signal() -> None:
    assert supply.run([sys.executable, "-c", "raise SystemExit(1)"], os.environ) == 0
