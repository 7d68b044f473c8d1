"""The word "unforeseen" in a log, from a command or from a child is seen, so that it fails its test."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable

import pytest
from support.unforeseen import watching

from edgeserve import cli


def log() -> None:
    logging.getLogger("edgeserve.access").error("GET /x failed in an unforeseen way")


def fail() -> None:
    cli.fail(KeyError("x"), debug=False)


def child() -> None:
    subprocess.run([sys.executable, "-c", "print('[ERROR] unforeseen KeyError')"], capture_output=True, check=False)


def child_with_a_file() -> None:
    with tempfile.TemporaryFile() as file:
        command = [sys.executable, "-c", "import sys; sys.stderr.write('[ERROR] unforeseen KeyError')"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file) as process:
            assert process.wait() == 0


@pytest.mark.unforeseen
@pytest.mark.parametrize("tell", [log, fail, child, child_with_a_file])
def test_the_word_is_seen_wherever_it_is_told(tell: Callable[[], None]) -> None:
    with watching() as watch:
        tell()
        (line,) = watch.taken()
        assert "unforeseen" in line
        logging.getLogger("edgeserve.access").error("GET /x failed as expected")
        assert watch.taken() == []
