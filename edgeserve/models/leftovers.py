"""Folders that interrupted pulls and removals left in the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.models.lock import busy

PREFIXES: dict[str, Literal["pull", "removal"]] = {".partial-": "pull", ".removed-": "removal"}


@dataclass(frozen=True, slots=True)
class Leftover:
    """``name`` of the model; ``busy``: another process works on it now, so nothing was interrupted."""

    name: str
    of: Literal["pull", "removal"]
    path: Path
    size_bytes: int
    busy: bool = False


def partial(root: Path, name: str) -> Path:
    """The folder that a pull fills. It becomes the model's folder when it is complete."""
    return root / f".partial-{name}"


def removed(root: Path, name: str) -> Path:
    """The folder of a model whose files are about to be deleted."""
    return root / f".removed-{name}"


def of(root: Path, name: str) -> list[Path]:
    """Leftovers of one model."""
    return [path for path in (partial(root, name), removed(root, name)) if path.is_dir() or path.is_symlink()]


def set_aside(root: Path, name: str) -> Path:
    """Rename a model's folder to the one to be deleted, so that nobody finds half a model. Raises OSError."""
    gone = removed(root, name)
    if gone.exists():  # a removal was killed
        delete(gone)
    (root / name).rename(gone)
    return gone


def delete(path: Path) -> None:
    """Delete a folder with its files. Of a link to a folder, delete only the link. Raises OSError."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)


def everything(root: Path) -> Iterator[Leftover]:
    """All leftovers, sorted by path. Raises OSError."""
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        for prefix, stage in PREFIXES.items():
            if path.name.startswith(prefix) and path.is_dir():
                name = path.name.removeprefix(prefix)
                yield Leftover(name, stage, path, _size(path), busy(root, name))


def _size(folder: Path) -> int:
    """Bytes of the files that are still there: another process may be deleting them."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.lstat().st_size
        except FileNotFoundError:
            continue
    return size
