"""Models that running servers use: each server keeps a list of them in the store, which it locks while it runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

PREFIX = ".served-"
LONGEST = 1 << 20
"""Bytes of a list that are read."""


def own_name() -> str:
    """The name of this process's list. Containers with one store may have servers of the same process number."""
    return f"{PREFIX}{os.getpid()}@{os.uname().nodename.replace('/', '_')}"


class ServedList:
    """The list of one server. One thread."""

    def __init__(self, root: Path) -> None:
        self._path = root / own_name()
        self._file: TextIO | None = None
        self._names: tuple[str, ...] | None = None

    def keep(self, names: Iterable[str]) -> None:
        """Write the names of the models in use, where they have changed. Raises OSError."""
        wanted = tuple(sorted(set(names)))
        if wanted == self._names:
            return
        if self._file is None:
            self._file = self._opened()
        # A reader of this very moment finds each new name, and perhaps the end of an old one behind them.
        data = "".join(f"{one}\n" for one in wanted).encode()
        os.pwrite(self._file.fileno(), data, 0)
        os.ftruncate(self._file.fileno(), len(data))
        self._names = wanted

    def _opened(self) -> TextIO:
        """The file, locked before anybody can find it. Lists of killed servers go. Raises OSError."""
        for path in self._path.parent.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # another user's, or on a disk that nobody writes
                _alive(path)
        hidden = self._path.with_name(f".new{self._path.name}")
        file = hidden.open("w", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            hidden.rename(self._path)
        except BaseException:
            file.close()
            raise
        return file

    def end(self) -> None:
        """Remove the list. Idempotent."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # the disk is gone; without its lock the list counts for nothing
                self._path.unlink()
            self._file.close()
            self._file = self._names = None


def servers_of(root: Path, name: str) -> list[str]:
    """The other processes that serve a model of the store, as PROCESS@HOST. Raises OSError."""
    found = []
    for path in sorted(root.glob(f"{PREFIX}*")):
        if path.name != own_name() and name in _alive(path):
            found.append(path.name.removeprefix(PREFIX))
    return found


def _alive(path: Path) -> list[str]:
    """The names in a list; none where its server was killed. The list of such a server is removed."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST).splitlines()
    except FileNotFoundError:
        pass  # its server has just ended
    else:
        path.unlink(missing_ok=True)
    return []
