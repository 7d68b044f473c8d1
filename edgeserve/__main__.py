"""``python -m edgeserve`` is the command ``edgeserve``."""

from __future__ import annotations

import sys

from edgeserve.cli import main

if __name__ == "__main__":
    sys.exit(main())
