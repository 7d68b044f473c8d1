"""The files of states in the folders of models, as the disk lists them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.state_index import client_of, scope_of

log = logging.getLogger("edgeserve.llama")

SUFFIX, KEPT, PART = ".state", ".slot", ".part"
"""States that the server saved; states that somebody saved by name, which only others with names push out; unfinished
files."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """``used``: time of the last use, in seconds; ``salt``: the hash that stands for the salt in the file's name."""

    path: Path
    size: int
    used: float
    salt: str


def subfolders(pool: Path) -> list[Path]:
    """The folders of the models in a folder. Never raises."""
    try:
        return [Path(one.path) for one in os.scandir(pool) if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("the states in %s cannot be listed: %s", pool, error)
        return []


def files_in(folder: Path) -> Iterator[StateFile]:
    """Files of these kinds in the folder of one model. Never raises. Another process may remove any of them."""
    try:
        for one in os.scandir(folder):
            path = Path(one.path)
            if path.suffix in (SUFFIX, KEPT, PART) and one.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    about = one.stat(follow_symlinks=False)
                    yield StateFile(path, about.st_size, about.st_mtime, salt_in(path.name))
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("the states in %s cannot be listed: %s", folder, error)


def salt_in(name: str) -> str:
    """The hash that stands for the salt in the name of a file. The part before its slash stands for the client."""
    return name.partition("-")[0].replace(".", "/")


def owner_of(salt: str) -> str:
    """Hashes that stand for a salt in names of files: the salt itself may be derived from a key of the API.

    Of a client with several salts, the client's hash, a dot, and the hash of the salt.
    """
    client = client_of(salt)
    return _hash(client) if client == salt else f"{_hash(client)}.{_hash(scope_of(salt))}"


def _hash(text: str) -> str:
    return hashlib.sha256(b"edgeserve owner of a state" + text.encode()).hexdigest()[:16]


def make_private(folder: Path) -> None:
    """Let only the owner read the folder. By descriptor, since a confined worker may change no mode by name.

    Raises PermissionError for a folder of somebody else.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():  # the superuser could change the mode all the same
            raise PermissionError(errno.EPERM, "the folder belongs to another user", str(folder))
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def free_bytes(path: Path) -> int:
    """Free bytes of a path's disk for this user."""
    about = os.statvfs(path)
    return about.f_bavail * about.f_frsize
