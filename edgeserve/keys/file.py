"""The file of keys: JSON, readable by its owner alone. It holds hashes and no tokens."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.errors import ConfigError
from edgeserve.keys.key import MOST, NAME, SCOPES, Key
from edgeserve.system import plain

NAME_OF_FILE = "keys.json"
VERSION = 1
MOST_KEYS = 256
"""Keys of one file: each request is compared with all of them."""
LONGEST = 1 << 20
"""Bytes of the file."""
DIGEST = re.compile(r"[0-9a-f]{64}")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
NOT_THERE = (FileNotFoundError, NotADirectoryError)
OWN_NAME = "api_key"
"""Name of the key of the settings."""


def read(path: Path) -> tuple[Key, ...] | None:
    """The keys of the file; None where there is no file.

    Raises ConfigError for a file that cannot be read, that is no file of keys, or that other users may write.
    """
    try:
        with plain.opened(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(LONGEST + 1)
    except NOT_THERE:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: the keys cannot be read: {error.strerror}") from None
    if mode & OTHERS_WRITE:
        raise ConfigError(f"{path}: others may write it (mode {stat.S_IMODE(mode):03o}): chmod 600 {path}")
    try:
        return parse(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: this is no file of keys: {error}; make keys with `edgeserve key add`") from None


def parse(data: bytes) -> tuple[Key, ...]:
    """The keys of a file's bytes. Raises ValueError and RecursionError."""
    if len(data) > LONGEST:
        raise ValueError(f"it has more than {LONGEST >> 20} MB")
    document = json.loads(data)
    if (
        not isinstance(document, dict)
        or document.get("version") != VERSION
        or not isinstance(document.get("keys"), list)
    ):
        raise ValueError(f"expected version {VERSION} and a list of keys")
    keys = tuple(_key(one) for one in document["keys"])
    if len(keys) > MOST_KEYS or len({one.name for one in keys}) < len(keys):
        raise ValueError(f"expected at most {MOST_KEYS} keys, each with another name")
    return keys


def _key(row: Any) -> Key:
    """Raises ValueError."""
    names = {one.name for one in dataclasses.fields(Key)}
    if not isinstance(row, dict) or row.keys() != names:
        raise ValueError(f"expected keys of {', '.join(sorted(names))}")
    texts = all(isinstance(row[name], str) for name in ("name", "digest", "scope", "created"))
    numbers = all(type(row[name]) is int and 0 <= row[name] <= MOST for name in ("per_minute", "at_once"))
    if not (texts and numbers and NAME.fullmatch(row["name"]) and DIGEST.fullmatch(row["digest"])):
        raise ValueError(f"the key {str(row['name'])[:80]!r} is damaged")
    if row["scope"] not in SCOPES:
        raise ValueError(f"the key {row['name']!r} has no scope of {', '.join(SCOPES)}")
    return Key(**row)


def write(path: Path, keys: Sequence[Key]) -> None:
    """Write the file, whole or not at all, for its owner alone. Raises OSError.

    The administrator writes it for the user to whom the file, else its folder, belongs: a service may run as another.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    owned = path if path.exists() else path.parent
    document = {"version": VERSION, "keys": [dataclasses.asdict(one) for one in keys]}
    partial = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _hand_over(file.fileno(), owned)
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _hand_over(descriptor: int, owned: Path) -> None:
    """Give an administrator's file to the user to whom ``owned`` belongs. Raises OSError."""
    if os.geteuid() == 0:
        belongs = owned.stat()
        os.fchown(descriptor, belongs.st_uid, belongs.st_gid)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[tuple[Key, ...]]:
    """The keys of the file, while no other process changes them. Raises ConfigError and OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW  # no link leads the administrator to another file
    with open(os.open(path.with_name(f".{path.name}.lock"), flags, 0o600), "w", encoding="utf-8") as lock:
        _hand_over(lock.fileno(), path.parent)  # else nobody but the administrator could change the keys from now on
        fcntl.flock(lock, fcntl.LOCK_EX)  # held for milliseconds
        yield read(path) or ()
