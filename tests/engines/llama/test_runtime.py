"""Tests of engines/llama/runtime.py."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edgeserve.engines.llama.runtime import SPINS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "told"), [({}, SPINS), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "0")]
)
def test_waiting_threads_sleep_soon_unless_the_user_says_otherwise(given: dict[str, str], told: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    child = subprocess.run(
        [sys.executable, "-c", "from edgeserve.engines.llama.runtime import llama; llama()"],
        env={**kept, **given, "OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "GOMP_SPINCOUNT" not in child.stderr:
        pytest.skip("llama.cpp was built with another OpenMP than GNU's, or with none")
    assert f"GOMP_SPINCOUNT = '{told}'" in child.stderr
