"""Agents in a terminal, with the settings that ``edgeserve launch`` prints for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NODE = os.environ.get("EDGESERVE_CLIENTS_NODE", "")
PYTHON = os.environ.get("EDGESERVE_CLIENTS_PYTHON", "")
SECONDS = 240
"""An agent's first prompt has thousands of tokens."""


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(NODE) / ".bin")) if NODE else None
    if found is None:
        pytest.skip(f"needs node and the program {name} of npm")
    return found


def settings(client: str, address: str) -> str:
    command = [PYTHON, "-m", "edgeserve", "launch", client, "--url", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def said(command: list[str], home: Path, environ: dict[str, str] | None = None) -> str:
    """The text that a program prints which finds nothing of the user's in its home."""
    (home / "work").mkdir()
    done = subprocess.run(
        command,
        cwd=home / "work",
        env={"PATH": os.environ["PATH"], "HOME": str(home), **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.client("npm:@openai/codex", "runs")
def test_codex(address: str) -> None:
    codex = program("codex")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / ".codex" / "config.toml"
        file.parent.mkdir()
        file.write_text(settings("codex", address), encoding="utf-8")
        assert said([codex, "exec", "--skip-git-repo-check", "Say hello."], Path(folder)).strip()


@pytest.mark.client("npm:@anthropic-ai/claude-code", "runs")
def test_claude_code(address: str) -> None:
    """With a short system text and no tools: its own 20,000 tokens are more than the starter model reads."""
    claude = program("claude")
    lines = [line.removeprefix("export ") for line in settings("claude-code", address).splitlines() if "=" in line]
    environ = {name: value.strip('"') for name, value in (line.split("=", 1) for line in lines)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [claude, "-p", "Say hello.", "--system-prompt", "You are brief.", "--tools", ""]
        assert said(command, Path(folder), environ).strip()
