"""Linux: control groups, versions 1 and 2, from this process's own up to the root; the tightest counts.

``memory.current`` counts page cache, mapped weights included, so headroom = limit - current + inactive_file +
active_file (measured: docs/memory.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgeserve.system.readings import GroupLimit

UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as a number near 2**63, rounded to pages."""


@dataclass(frozen=True, slots=True)
class Version:
    """File names of one version. ``files`` are the rows of memory.stat that hold droppable pages, children included."""

    limits: tuple[str, ...]
    current: str
    files: tuple[str, ...]


V1 = Version(("memory.limit_in_bytes",), "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
V2 = Version(("memory.max", "memory.high"), "memory.current", ("inactive_file", "active_file"))


def read_limit(proc: Path, root: Path) -> GroupLimit | None:
    """The tightest limit and the smallest headroom over all groups above this process; None without a limit."""
    found = [one for folder, version in folders(proc, root) for one in _limits(folder, version)]
    if not found:
        return None
    return GroupLimit(limit=min(one.limit for one in found), headroom=min(one.headroom for one in found))


def folders(proc: Path, root: Path) -> Iterator[tuple[Path, Version]]:
    """Every existing group folder of this process that may hold a limit, each hierarchy from the leaf to its root.

    In a container the path is often told as the host sees it, while the mount shows the container's own group as
    its root: folders that do not exist are left out, the root never is.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            base, version = root / "memory", V1
        elif not controllers:
            base, version = (root / "unified" if (root / "unified").is_dir() else root), V2
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        # A path that leads out of our namespace ("/../x") says nothing about folders that we can see.
        above = [PurePosixPath()] if ".." in inside.parts else [inside, *inside.parents]
        for one in dict.fromkeys(above):
            if (base / one).is_dir():
                yield base / one, version


def _limits(folder: Path, version: Version) -> Iterator[GroupLimit]:
    current = _number(folder / version.current)
    if current is None:  # the root group of version 2 counts nothing
        return
    for name in version.limits:
        limit = _number(folder / name)
        if limit is not None and limit < UNLIMITED:
            headroom = limit - current + _droppable(folder, version)
            yield GroupLimit(limit=limit, headroom=min(limit, max(0, headroom)))


def _droppable(folder: Path, version: Version) -> int:
    try:
        text = (folder / "memory.stat").read_text(encoding="ascii")
    except OSError:
        return 0  # then all page cache counts as used, which errs to the safe side
    rows = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return sum(int(rows.get(name, 0)) for name in version.files)


def _number(path: Path) -> int | None:
    """The file's number; None for "max" and for a file that is not there."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
