"""The wall clock that jumps, in a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.chaos.clock import VARIABLE

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
begun = time.time()
Path(os.environ["EDGESERVE_CHAOS_CLOCK"]).write_text("-3600")
os.kill(os.getpid(), signal.SIGUSR2)
print(round((time.time() - begun) / 60), round((time.time_ns() / 1e9 - begun) / 60), sys.argv[1:])
"""


def test_the_clock_of_a_program_jumps(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environ = {**os.environ, VARIABLE: str(tmp_path / "clock"), "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"}
    command = [sys.executable, "-m", "benchmarks.chaos.clock", "program", "one"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=2) == ["-60", "-60", "['one']\n"]
