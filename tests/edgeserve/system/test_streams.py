"""Standard streams that are closed, full, unread, or hold no text: one clear line, and the right exit code."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fake_cli
from support.commands import run, told
from support.examples import examples

from edgeserve.errors import InvalidRequest
from edgeserve.system import streams

pytestmark = pytest.mark.slow

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def environment(folder: Path) -> Mapping[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(fake_cli.ROOT),
        "EDGESERVE_MODELS_DIR": str(folder / "store"),
        "EDGESERVE_CONFIG": "",
    }


def shell(folder: Path, words: str, stdin: bytes | None = None) -> tuple[int, str, list[str]]:
    """Run a line of shell in which ``edgeserve`` is the real command; its exit code, stdout and lines of stderr."""
    line = f'edgeserve() {{ "{sys.executable}" -m edgeserve "$@"; }}\n{words}'
    ended = subprocess.run(
        ["bash", "-c", line], input=stdin, capture_output=True, cwd=folder, env=environment(folder), timeout=60
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("edgeserve chat <&-", 1, ["[ERROR] the prompt is empty"]),
        ("edgeserve speak - <&-", 1, ["[ERROR] the text is empty"]),
        ("edgeserve list <&- >&-", 0, []),
        ("edgeserve list >&- 2>&-", 0, []),
        ("edgeserve show nothing <&- 2>&- >&-", 1, []),
        ("edgeserve list --all | true; exit ${PIPESTATUS[0]}", 141, []),
        ("edgeserve list --all </dev/null 1</dev/null", 1, ["[ERROR] stdout: Bad file descriptor"]),
        ("edgeserve serve --port abc", 2, None),
        ("edgeserve serve --port 70000", 2, ["[ERROR] --port = 70000: expected a whole number from 0 to 65535"]),
    ],
)
def test_closed_streams(tmp_path: Path, words: str, code: int, error: list[str] | None) -> None:
    (tmp_path / "models.toml").write_text("")
    ended, _, lines = shell(tmp_path, words)
    assert (ended, lines) == (code, lines if error is None else error)
    assert len(lines) <= 1


@FULL
@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("edgeserve list --all >/dev/full", 1, ["[ERROR] stdout: No space left on device"]),
        ("edgeserve doctor --json >/dev/full", 1, ["[ERROR] cannot read or write: No space left on device"]),
        ("edgeserve show nothing 2>/dev/full", 1, []),
        ("edgeserve serve --port x 2>/dev/full", 2, []),
        ("edgeserve --help >/dev/full", 0, []),
    ],
)
def test_a_full_disk(tmp_path: Path, words: str, code: int, error: list[str]) -> None:
    (tmp_path / "models.toml").write_text("")
    ended, _, lines = shell(tmp_path, words)
    assert (ended, lines) == (code, error)


def test_a_server_without_standard_streams_serves(tmp_path: Path) -> None:
    """No file or socket that the server opens later gets the number of a standard stream."""
    (tmp_path / "models.toml").write_text("[server]\nport = 0\n")
    command = f'exec "{sys.executable}" -m edgeserve serve <&- 2>&-'
    with subprocess.Popen(
        ["bash", "-c", command], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(tmp_path)
    ) as process:
        assert process.stdout
        try:
            url = process.stdout.readline().split()[4]
            assert httpx.get(f"{url}/v1/health", timeout=5).status_code == 200
            if sys.platform == "linux":
                assert {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 2)} == {os.devnull}
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


INTERRUPT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["edgeserve", *{argv!r}]
from edgeserve.__main__ import run
sys.exit(run())
"""


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["list"], "edgeserve.system.streams"),
        (["list"], "argparse"),
        (["list"], "edgeserve.cli"),
        (["list"], "edgeserve.commands.models"),
        (["list"], "tomllib"),
        (["serve"], "edgeserve.errors"),
        (["serve"], "asyncio"),
        (["serve"], "uvicorn"),
        (["serve"], "uvicorn.lifespan.on"),
        (["serve"], "edgeserve.engines.llama.options"),
    ],
)
def test_ctrl_c_before_the_command_has_begun(tmp_path: Path, argv: list[str], name: str) -> None:
    """At the import of a module: imports fill the first half second."""
    (tmp_path / "models.toml").write_text("[server]\nport = 0\n")
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPT.format(name=name, argv=argv)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment(tmp_path), "PYTHONMALLOC": "malloc"},
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_ignored_ctrl_c_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("")
    (tmp_path / "list.py").write_text(INTERRUPT.format(name="edgeserve.commands.models", argv=["list"]))
    ended, out, lines = shell(tmp_path, f"trap '' INT; exec \"{sys.executable}\" list.py")
    assert (ended, lines) == (0, [])
    assert out.startswith("No model is pulled yet")


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@examples(50)
@given(st.binary(max_size=40).filter(lambda data: not is_text(data)))
def test_stdin_that_is_not_utf8_is_refused(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(InvalidRequest, match=r"prompt on stdin is not UTF-8 text: byte \d+ of \d+ is 0x[89a-f]"):
            streams.read_text("prompt")


@examples(50)
@given(st.text())
def test_stdin_that_is_utf8_is_read_whatever_the_locale(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="ascii"))
        assert streams.read_text("prompt") == text.removeprefix("\ufeff")


@pytest.mark.parametrize("argv", [["chat"], ["speak", "-", "-o", "x.wav"]])
def test_a_command_refuses_bytes_that_are_no_text(
    settings: Path, argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    assert run(*argv) == 1
    (line,) = told(capsys)
    assert "on stdin is not UTF-8 text: byte 4 of 4 is 0xe9" in line


@pytest.mark.parametrize(
    "argv", [["chat", "caf\udce9"], ["chat", "x", "--system", "\udce9"], ["speak", "\udce9", "-o", "x.wav"]]
)
def test_an_argument_that_is_no_text(settings: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*argv) == 1
    (line,) = told(capsys)
    assert "is not UTF-8 text" in line
