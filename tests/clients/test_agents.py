"""Agents in a terminal, with the settings that ``edgeserve launch`` prints for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

Launched = Callable[[str], str]
NODE = os.environ.get("EDGESERVE_CLIENTS_NODE", "")
SECONDS = 240
"""An agent's first prompt has thousands of tokens."""


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(NODE) / ".bin")) if NODE else None
    if found is None:
        pytest.skip(f"needs node and the program {name} of npm")
    return found


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


@pytest.mark.client("npm:@openai/codex", "settings of edgeserve launch")
def test_codex(launched: Launched) -> None:
    codex = program("codex")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / ".codex" / "config.toml"
        file.parent.mkdir()
        file.write_text(launched("codex"), encoding="utf-8")
        assert said([codex, "exec", "--skip-git-repo-check", "Say hello."], Path(folder)).strip()


@pytest.mark.client("npm:@anthropic-ai/claude-code", "settings of edgeserve launch")
def test_claude_code(launched: Launched) -> None:
    """With a short system text and no tools: its own 20,000 tokens are more than the starter model reads."""
    claude = program("claude")
    lines = [line.removeprefix("export ") for line in launched("claude-code").splitlines() if "=" in line]
    environ = {name: value.strip('"') for name, value in (line.split("=", 1) for line in lines)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [claude, "-p", "Say hello.", "--system-prompt", "You are brief.", "--tools", ""]
        assert said(command, Path(folder), environ).strip()
