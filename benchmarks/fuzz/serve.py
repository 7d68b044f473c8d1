"""The server that the fuzzer asks: engines without models, in processes of their own, that answer at once.

python -m benchmarks.fuzz.serve FOLDER PORT
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.chaos import fakes

OPTIONS = {"mapped_mb": 1, "private_mb": 4, "request_mb": 1, "context": 100_000, "abilities": "insert"}

if __name__ == "__main__":
    fakes.serve(Path(sys.argv[1]), int(sys.argv[2]), OPTIONS)
