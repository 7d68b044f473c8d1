"""Why tests on MLX do not run where they do not."""

from __future__ import annotations

import importlib.util

import pytest

SLOW = pytest.mark.timeout(900)
"""Without Metal, MLX takes 15 s of processor time for a window of Whisper tiny."""

needs_mlx = pytest.mark.skipif(
    importlib.util.find_spec("mlx_whisper") is None or importlib.util.find_spec("mlx") is None,
    reason="MLX or mlx-whisper is not installed: there may be no wheel for this Python or system (docs/apple.md)",
)
