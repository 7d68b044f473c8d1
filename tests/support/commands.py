"""Running the command line on fake engines: in this process, as a process of its own, at a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import pytest
from support import fake_cli
from support.gates import PATIENCE_SECONDS, CountingGovernor


def run(*argv: str, environ: Mapping[str, str] | None = None, governor: CountingGovernor | None = None) -> int:
    return fake_cli.main(list(argv), environ or {}, governor)


def start(*argv: str, **environ: str) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, fake_cli.__file__, *argv],
        env={"PATH": os.environ["PATH"], **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The error lines; each starts with [ERROR]."""
    return capsys.readouterr().err.splitlines()


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout
    got = ""
    while text not in got:
        piece = process.stdout.read(1)
        assert piece, f"ended after {got!r}: {process.stderr and process.stderr.read()}"
        got += piece


class Typist:
    """Someone at a terminal."""

    def __init__(self, *argv: str, **environ: str) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, fake_cli.__file__, *argv],
            env={"PATH": os.environ["PATH"], "TERM": "dumb", "FAKE_TERMINAL": "1", **environ},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._unread = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def sees(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for ``text`` on the screen; what came before it."""
        until = time.monotonic() + seconds
        while text not in self._unread:
            assert select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))[0], self._unread
            self._unread += self._read()
        before, _, self._unread = self._unread.partition(text)
        return before

    def _read(self) -> str:
        try:
            piece = os.read(self._terminal, 4096)
        except OSError:  # how Linux tells the end of a terminal
            piece = b""
        assert piece, f"ended after {self._unread!r}"
        return piece.decode()

    def leave(self) -> None:
        os.close(self._terminal)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def typist(*argv: str, **environ: str) -> Iterator[Typist]:
    one = Typist(*argv, **environ)
    try:
        yield one
    finally:
        one.leave()
