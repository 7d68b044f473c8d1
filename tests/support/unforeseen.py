"""Watches for errors that nobody foresaw: the word "unforeseen" in a log, or in what a process of ours printed."""

from __future__ import annotations

import contextlib
import logging
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
    """Over our logs, over commands in this process, and over every child whose output is read to its end."""
    watch, fail, communicate = Watch(), cli.fail, subprocess.Popen.communicate

    def failing(error: Exception, **how: Any) -> int:
        if not isinstance(error, EdgeserveError | OSError):
            watch.told.append(f"{WORD} {type(error).__name__}: {error}")
        return fail(error, **how)

    def read(self: subprocess.Popen[Any], *arguments: Any, **more: Any) -> Any:
        told = communicate(self, *arguments, **more)
        for text in told:
            watch.look(text)
        return told

    ours = logging.getLogger("edgeserve")
    ours.addHandler(watch)
    replace(cli, "fail", failing)
    replace(subprocess.Popen, "communicate", read)
    try:
        yield watch
    finally:
        ours.removeHandler(watch)
        replace(cli, "fail", fail)
        replace(subprocess.Popen, "communicate", communicate)


def replace(owner: object, name: str, by: Callable[..., Any]) -> None:
    setattr(owner, name, by)
