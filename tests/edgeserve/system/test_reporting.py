"""No process of edgeserve reports its use or leaves a library's files behind, over whole commands in an empty home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.commands import read_until

from edgeserve.jobs import STARTER
from edgeserve.models.store import Store
from edgeserve.system import reporting

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
RUN = (sys.executable, "-m", "edgeserve")


class Home:
    """An empty home; ``left`` are the files and empty folders that are in it now, without those of our own store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        hidden = {*reporting.SWITCHES, "CI", "PYTHONPATH"}
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in hidden and "CACHE" not in name and not name.startswith("EDGESERVE_")
        }
        folders = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"}
        self.environ = {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        for variable, folder in {**folders, "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}.items():
            (path / folder).mkdir()
            self.environ[variable] = str(path / folder)
        self._own = {path / name for name in (*folders.values(), "state", "tmp")}

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={**self.environ, **environ}, capture_output=True, text=True, timeout=240, cwd=self.path
        )

    def left(self) -> list[str]:
        found = [
            one for one in self.path.rglob("*") if one not in self._own and (one.is_file() or not any(one.iterdir()))
        ]
        names = [str(one.relative_to(self.path)) for one in found]
        return sorted(name for name in names if not name.startswith("data/edgeserve/"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(
    "command",
    ["doctor", "doctor --json", "list --all", "show hibari", "serve --no-pull", "chat hello", "--help"],
)
def test_a_command_leaves_nothing_of_a_library_behind(home: Home, command: str) -> None:
    ended = home.run(*RUN, *command.split())
    assert "Traceback" not in ended.stderr
    assert home.left() == []


IMPORTED = "import {}; import onnxruntime; onnxruntime.InferenceSession"


@pytest.mark.parametrize(
    "module",
    ["edgeserve", "edgeserve.doctor.machine", "engines.onnx.session", "engines.onnx.optimise", "engines.asr.vad"],
)
def test_every_first_module_switches_the_runtimes_reports_off(home: Home, module: str) -> None:
    ended = home.run(sys.executable, "-c", IMPORTED.format(module))
    assert ended.returncode == 0, ended.stderr
    assert home.left() == []


@pytest.mark.models
def test_speech_and_transcription_leave_only_their_own_files(
    home: Home, store: Store, pulled: Callable[[str], Mapping[str, Path]]
) -> None:
    for name in ("hibari", "whisper-tiny.en"):
        pulled(name)
    where = {"EDGESERVE_MODELS_DIR": str(store.root)}
    sound = home.path / "hello.wav"
    for command in ([*RUN, "speak", "Hello there.", "-o", str(sound)], [*RUN, "transcribe", str(sound)]):
        ended = home.run(*command, **where)
        assert ended.returncode == 0, ended.stderr
    assert home.left() == ["hello.wav"]


@pytest.mark.models
def test_a_server_with_all_engines_open_leaves_nothing(
    home: Home, store: Store, pulled: Callable[[str], Mapping[str, Path]]
) -> None:
    for name in STARTER.values():
        pulled(name)
    command = [*RUN, "serve", "--port", "0", "--preload", "all"]
    environ = {**home.environ, "EDGESERVE_MODELS_DIR": str(store.root)}
    with subprocess.Popen(
        command, env=environ, cwd=home.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        read_until(server, "serves on")
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert home.left() == []


def test_the_users_own_setting_stays() -> None:
    environ = {"ORT_DISABLE_TELEMETRY": "0", "HF_HUB_DISABLE_TELEMETRY": ""}
    reporting.switch_off(environ)
    assert environ == {"ORT_DISABLE_TELEMETRY": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
