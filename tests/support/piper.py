"""Piper voices for the tests: whether they can run, and one without its noise."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

needs_phonemizer = pytest.mark.skipif(
    importlib.util.find_spec("piper") is None, reason="piper-tts (GPL) is not installed: pip install '.[piper]'"
)


def noiseless(files: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """The voice's files with a config by which it draws no noise, so that it says the same text alike."""
    settings = json.loads(files["config"].read_text(encoding="utf-8"))
    settings["inference"] |= {"noise_scale": 0.0, "noise_w": 0.0}
    config = folder / files["config"].name
    config.write_text(json.dumps(settings), encoding="utf-8")
    return {**files, "config": config}
