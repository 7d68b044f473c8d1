"""Linux: limits of control groups, versions 1 and 2, from the process's own group up to the root; the tightest counts.

``memory.current`` counts page cache, mapped weights included, so headroom = limit - current + inactive_file +
active_file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from edgeserve.dataclass import dataclass
from edgeserve.system.readings import GroupLimit

UNLIMITED = 1 << 60
"""Numbers from here on stand for "no limit": version 1 writes a number near 2**63, rounded to pages."""


@dataclass(frozen=True, slots=True)
class Version:
    """File names of one version. ``files``: rows of memory.stat that count droppable pages, children included."""

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


def read_cpu_quota(proc: Path, root: Path) -> float | None:
    """Cores' worth of processor time that the tightest group grants; None without a quota."""
    quotas = [_quota(folder, version) for folder, version in folders(proc, root, "cpu")]
    return min((one for one in quotas if one is not None), default=None)


def folders(proc: Path, root: Path, controller: str = "memory") -> Iterator[tuple[Path, Version]]:
    """Every existing group folder of this process that may hold a limit, each hierarchy from the leaf to its root.

    In a container the kernel often names the path that the host sees, while the mount shows the container's own group
    as its root. Folders that do not exist are therefore left out; the root never is.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            base, version = root / controller, V1
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
    # The root group of version 2 counts nothing.
    if current is None:
        return
    for name in version.limits:
        limit = _number(folder / name)
        if limit is not None and limit < UNLIMITED:
            headroom = limit - current + _droppable(folder, version)
            yield GroupLimit(limit=limit, headroom=min(limit, max(0, headroom)))


def _quota(folder: Path, version: Version) -> float | None:
    if version is V1:
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    else:
        words = _text(folder / "cpu.max").split()
        quota, period = (int(word) if word.isdigit() else None for word in words) if len(words) == 2 else (None, None)
    return quota / period if quota and period else None


def _droppable(folder: Path, version: Version) -> int:
    """Bytes of file pages; 0 without statistics, so that all page cache counts as used, which is the safe side."""
    rows = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    return sum(int(rows.get(name, 0)) for name in version.files)


def _number(path: Path) -> int | None:
    """The file's number; None for "max", "-1" and a missing file."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    """The file's text; "" for a file that is missing or cannot be read."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
