"""Watches for errors that nobody foresaw: the word "unforeseen" in a log, or in what a process of ours printed.

It sees the output of a process that a test reads to its end, or that goes into a file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from edgeserve import cli
from edgeserve.errors import EdgeserveError

WORD = "unforeseen"


class Watch(logging.Handler):
    """``told`` holds each line with the word, from any thread, until ``taken``."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.look(record.getMessage())

    def look(self, text: str | bytes | None) -> None:
        plain = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
        self.told += [line for line in plain.splitlines() if WORD in line]

    def taken(self) -> list[str]:
        told, self.told = self.told, []
        return told


@contextlib.contextmanager
def watching() -> Iterator[Watch]:
    """Over our logs, over commands in this process, and over every child's output, read to its end or in a file."""
    watch, fail, communicate = Watch(), cli.fail, subprocess.Popen.communicate
    begin, wait = subprocess.Popen.__init__, subprocess.Popen.wait

    def failing(error: Exception, **how: Any) -> int:
        if not isinstance(error, EdgeserveError | OSError):
            watch.told.append(f"{WORD} {type(error).__name__}: {error}")
        return fail(error, **how)

    def read(self: subprocess.Popen[Any], *arguments: Any, **more: Any) -> Any:
        told = communicate(self, *arguments, **more)
        for text in told:
            watch.look(text)
        return told

    def begun(self: subprocess.Popen[Any], *arguments: Any, **more: Any) -> None:
        begin(self, *arguments, **more)
        files = [one for one in (more.get("stdout"), more.get("stderr")) if hasattr(one, "fileno")]
        if regular := [one for one in files if stat.S_ISREG(os.fstat(one.fileno()).st_mode)]:
            written[self] = list(map(reader, regular))

    def waited(self: subprocess.Popen[Any], *arguments: Any, **more: Any) -> int:
        code = wait(self, *arguments, **more)
        for one in written.pop(self, ()):
            watch.look(os.pread(one, os.fstat(one).st_size, 0))
            os.close(one)
        return code

    written: dict[subprocess.Popen[Any], list[int]] = {}
    ours = logging.getLogger("edgeserve")
    ours.addHandler(watch)
    replace(cli, "fail", failing)
    replace(subprocess.Popen, "communicate", read)
    replace(subprocess.Popen, "__init__", begun)
    replace(subprocess.Popen, "wait", waited)
    try:
        yield watch
    finally:
        ours.removeHandler(watch)
        replace(cli, "fail", fail)
        replace(subprocess.Popen, "communicate", communicate)
        replace(subprocess.Popen, "__init__", begin)
        replace(subprocess.Popen, "wait", wait)


def reader(file: Any) -> int:
    """A descriptor that reads the file, also where the file itself is open to be written only."""
    return os.open(file.name, os.O_RDONLY) if isinstance(file.name, str) else os.dup(file.fileno())


def replace(owner: object, name: str, by: Callable[..., Any]) -> None:
    setattr(owner, name, by)
