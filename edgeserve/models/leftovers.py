"""What pulls and removals that were broken off left in the store."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PREFIXES: dict[str, Literal["pull", "removal"]] = {".partial-": "pull", ".removed-": "removal"}


@dataclass(frozen=True, slots=True)
class Leftover:
    """``name`` of the model; ``busy``: another process works on it now, so nothing was broken off."""

    name: str
    of: Literal["pull", "removal"]
    path: Path
    size_bytes: int
    busy: bool = False


def lock_file(root: Path, name: str) -> Path:
    """Locked by the process that writes the model."""
    return root / f".lock-{name}"


def partial(root: Path, name: str) -> Path:
    """Where a model is pulled to."""
    return root / f".partial-{name}"


def removed(root: Path, name: str) -> Path:
    """Where a model goes before its files are deleted: half of one must not be found."""
    return root / f".removed-{name}"


def of(root: Path, name: str) -> list[Path]:
    """What was left of one model."""
    return [path for path in (partial(root, name), removed(root, name)) if path.is_dir() or path.is_symlink()]


def delete(path: Path) -> None:
    """A folder and all in it; of a link to one, only the link."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)


def everything(root: Path) -> Iterator[Leftover]:
    """Raises OSError where the folder cannot be read."""
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        for prefix, stage in PREFIXES.items():
            if path.name.startswith(prefix) and path.is_dir():
                name = path.name.removeprefix(prefix)
                yield Leftover(name, stage, path, _size(path), busy(root, name))


def busy(root: Path, name: str) -> bool:
    """Whether a process writes the model now."""
    try:
        with lock_file(root, name).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _size(folder: Path) -> int:
    """Of what can be read: another process may be deleting it."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.lstat().st_size
        except FileNotFoundError:
            continue
    return size
