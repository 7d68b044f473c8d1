"""Programs that measure their own memory, in processes set up as the server's is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def told_by(program: str, *arguments: str, given: bytes = b"") -> Any:
    """The JSON that a Python program prints. ``given``: its input. Python takes its memory from the heap of C."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=given,
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONMALLOC": "malloc"},
    )
    return json.loads(ended.stdout)
