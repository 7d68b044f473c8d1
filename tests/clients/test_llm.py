"""``llm``, Simon Willison's command, with a model of OpenAI's kind in its settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llm", reason="make clients installs llm")


@pytest.mark.client("llm", "chat")
@pytest.mark.parametrize("options", [[], ["--no-stream"]], ids=["stream", "whole"])
def test_a_prompt(tmp_path: Path, base_url: str, options: list[str]) -> None:
    lines = ["- model_id: here", "  model_name: gpt-4o", f"  api_base: {base_url}"]
    (tmp_path / "extra-openai-models.yaml").write_text("\n".join(lines), encoding="utf-8")
    environ = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
    command = [sys.executable, "-m", "llm", "-m", "here", "-o", "max_tokens", "16", *options, "Name a bird."]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
