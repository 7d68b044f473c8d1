"""The command line on fake engines, in this process or as a program: ``python tests/support/fake_cli.py chat hello``.

``FAKE_DELAY`` is the time in seconds that each event takes; ``FAKE_FAIL_ON`` the step that fails.
With ``FAKE_TERMINAL`` stdin becomes the terminal from which Ctrl-C comes.
"""

from __future__ import annotations

import fcntl
import os
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.gates import CountingGovernor, make_gate  # noqa: E402

from edgeserve import cli  # noqa: E402
from edgeserve.config import Config  # noqa: E402
from edgeserve.residency.pool import Pool  # noqa: E402


def main(argv: list[str], environ: Mapping[str, str], governor: CountingGovernor | None = None) -> int:
    options: dict[str, Any] = {"delay": float(environ.get("FAKE_DELAY", "0"))}
    if step := environ.get("FAKE_FAIL_ON"):
        options["fail_on"] = step

    def build(config: Config) -> Pool:
        admitting: Any = governor or CountingGovernor()
        return Pool([make_gate(job, admitting, options=options).host for job in config.models], admitting)

    return cli.main(argv, environ=environ, build_pool=build)


def take_terminal() -> None:
    """Take the terminal for a new session, which has none; on macOS opening one is not enough."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


if __name__ == "__main__":
    if "FAKE_TERMINAL" in os.environ:
        take_terminal()
    sys.exit(main(sys.argv[1:], os.environ))
