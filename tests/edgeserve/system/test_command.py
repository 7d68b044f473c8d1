"""Short commands of the system: their output, and each way to fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edgeserve.system import command

SLOW = [sys.executable, "-c", "import time; time.sleep(60)"]
FAILING = [sys.executable, "-c", "print('half'); raise SystemExit(3)"]


def test_a_command_prints() -> None:
    printing = [sys.executable, "-c", "print(' one ')"]
    assert command.run(printing) == " one \n"
    assert command.output(printing) == "one"


@pytest.mark.slow
@pytest.mark.parametrize("broken", [SLOW, FAILING, ["/no/such/command"]], ids=["slow", "failing", "missing"])
def test_a_command_that_fails_has_no_output(broken: list[str]) -> None:
    assert command.output(broken, seconds=0.1 if broken is SLOW else 10) == ""
    with pytest.raises((OSError, subprocess.SubprocessError)):
        command.run(broken, seconds=0.1 if broken is SLOW else 10)
