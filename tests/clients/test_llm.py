"""``llm``, Simon Willison's command, with a model of OpenAI's kind in its settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("llm", reason="make clients installs llm")


@pytest.mark.client("llm", "chat")
@pytest.mark.parametrize("options", [[], ["--no-stream"]], ids=["stream", "whole"])
def test_a_prompt(tmp_path: Path, base_url: str, options: list[str]) -> None:
    lines = ["- model_id: here", "  model_name: gpt-4o", f"  api_base: {base_url}"]
    (tmp_path / "extra-openai-models.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert said(tmp_path, "-m", "here", *options)


@pytest.mark.client("llm", "settings of edgeserve launch")
def test_the_settings_that_launch_prints(tmp_path: Path, launched: Callable[[str], str]) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(launched("llm"), encoding="utf-8")
    assert said(tmp_path, "-m", "edgeserve")


def said(folder: Path, *options: str) -> str:
    """The answer of the command with the settings in a folder."""
    environ = {**os.environ, "LLM_USER_PATH": str(folder)}
    command = [sys.executable, "-m", "llm", *options, "-o", "max_tokens", "16", "Name a bird."]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
