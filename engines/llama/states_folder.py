"""The folder of states on disk: one bound over the files of all its models, kept by every process that writes there.

    ROOT/.shared/MODEL/    models whose bound is "auto": they share it
    ROOT/MODEL/            a model with a bound of its own

A file is named OWNER-REST.state. OWNER has hashes of the client and the salt, so that shares hold across models. A
worker may list the files of other models, and remove them, but not read them. A file appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import stat
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.engines.llama.state_files import (
    KEPT,
    PART,
    SUFFIX,
    StateFile,
    files_in,
    free_bytes,
    make_private,
    salt_in,
    subfolders,
)
from edgeserve.engines.llama.state_index import choose_victims, client_of, next_victim
from edgeserve.engines.llama.writing import Allowance

log = logging.getLogger("edgeserve.llama")

SHARED = ".shared"
"""No folder of a model: their names begin with no dot."""
DISK_SHARE, MOST = 0.05, 1 << 30
"""Bound of the models that share one: this part of the free disk, and at most so many bytes."""
KEPT_SECONDS = 30 * 24 * 3600.0
"""Age from which an unused state is removed."""
NAMED_SHARE, MOST_NAMED = 0.5, 128
"""Part of the bound that the states with names may take, and their number. They never become too old."""
WRITING_SECONDS = 600.0
"""Age from which an unfinished file is what a power cut has left."""
LOCK_TRIES, LOCK_SECONDS = 50, 0.005
"""Tries to lock the folder, and the time between two. A writer holds the lock for some milliseconds."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
LONGEST_NAME = 100
"""Characters of a folder's name, so that it fits into every file system."""


class StatesFolder:
    """The files of one model in ``root``, and the bound that they are under.

    Arguments:
        limit      bytes of this model's files; None: the model shares the bound of all such models
        free       free bytes of the disk of a path
        clock      seconds since the epoch, as in the times of files
        allowance  bytes that may be written under a shared bound

    Methods block for the disk. Any process. One thread at a time stores what the server saves; any thread may do the
    rest meanwhile.
    """

    def __init__(
        self,
        root: Path,
        model: str,
        limit: int | None,
        *,
        free: Callable[[Path], int] = free_bytes,
        clock: Callable[[], float] = time.time,
        allowance: Allowance | None = None,
    ) -> None:
        self.pool, self.path = states_path(root, model, shared=limit is None)
        self._limit = limit
        self._free = free
        self._clock = clock
        self._allowance = (allowance or Allowance(MOST)) if limit is None else None

    @property
    def limits_writes(self) -> bool:
        return self._allowance is not None

    def spares(self, size: int) -> bool:
        """Whether a state may be written that could wait, without loss for those that cannot."""
        return self._allowance is not None and self._allowance.spares(size) and size <= self.limit

    @property
    def limit(self) -> int:
        """Bytes of all files under the bound, as the disk is now."""
        return self._limit_beside(sum(one.size for one in self.files())) if self._limit is None else self._limit

    @property
    def trusted(self) -> bool:
        """Whether nobody else can have put files there: llama.cpp would read what they hold."""
        try:
            about = [one.stat() for one in (self.pool, self.path)]
        except OSError:
            return False
        return all(one.st_uid == os.geteuid() and not one.st_mode & OTHERS_WRITE for one in about)

    def files(self) -> list[StateFile]:
        """All files under the bound, the least recently used first."""
        folders = [self.path] if self._limit is not None else subfolders(self.pool)
        return sorted((one for folder in folders for one in files_in(folder)), key=lambda one: one.used)

    def tidy(self) -> None:
        """Remove what is too old, and what the bound has no room for. Never raises."""
        try:
            if self.path.exists():
                with self._locked():
                    self._make_room(0, "", ())
        except OSError as error:
            log.warning("%s: the states cannot be tidied: %s", self.path, error)

    def store(self, name: str, parts: Sequence[Any], instead: Collection[Path] = ()) -> bool:
        """Write a file of this model. False when there is no room for it. Raises OSError when the disk refuses.

        ``name`` begins with its owner. The file consists of ``parts``, each of which has the interface of a buffer.
        Files that it stands for (``instead``) are the first to go when room is short.
        """
        size = sum(memoryview(part).nbytes for part in parts)
        spared = self._allowance if name.endswith(SUFFIX) else None  # whoever names a state wants it written
        if spared is not None and not spared.take(size, client_of(salt_in(name))):
            log.debug("%s: enough was written for now; a state of %d MB is not kept", self.path, size >> 20)
            return False
        part, descriptor = self.path / f"{name}.{os.urandom(4).hex()}{PART}", None
        try:
            descriptor = self._create(part, size, name, instead)
        finally:
            if descriptor is None and spared is not None:
                spared.give_back(size, client_of(salt_in(name)))
        if descriptor is None:
            return False
        try:
            with open(descriptor, "wb") as file:
                file.writelines(parts)
            with self._locked():  # otherwise one who counts files may miss it under both names
                os.replace(part, self.path / name)
        except BaseException:
            remove(part)
            raise
        return True

    def _create(self, part: Path, size: int, name: str, instead: Collection[Path]) -> int | None:
        """The descriptor of a new file of ``size`` bytes, still empty. None when there is no room. Raises OSError."""
        for folder in dict.fromkeys((self.pool, self.path)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(folder)
        with self._locked():
            make_room = self._make_room_for_named if name.endswith(KEPT) else self._make_room
            return _create(part, size) if make_room(size, name, instead) else None

    def _make_room_for_named(self, size: int, name: str, instead: Collection[Path]) -> bool:
        """Remove files until a state with a name fits. False when it would take another owner's share.

        1. Of the states with names, those of the owner with the most, the least recently used first.
        2. Other states, as ``_make_room`` chooses them; where they do not suffice, further named ones of this owner.
        """
        owner, bound = salt_in(name), int(self.limit * NAMED_SHARE)
        named = [one for one in self.files() if one.path.suffix == KEPT and one.path != self.path / name]
        # 1.
        gone = choose_victims(named, sum(one.size for one in named) + size - bound, {owner: size})
        if gone is None:
            return False
        while len(named) - len(gone) >= MOST_NAMED:
            one = next_victim([one for one in named if one not in gone], lambda one: 1, {owner: 1})
            if one is None:
                return False
            gone.append(one)
        # 2.
        own = [one for one in named if one.salt == owner and one not in gone]
        while all(remove(one.path) for one in gone):
            if self._make_room(size, name, instead):
                return True
            if not own:
                return False
            gone = [own.pop(0)]
        return False

    def _make_room(self, size: int, name: str, instead: Collection[Path]) -> bool:
        """Remove states without a name until a file of ``size`` bytes fits. False as ``_make_room_for_named``."""
        now, owner = self._clock(), salt_in(name)
        files = [one for one in self.files() if not (_outdated(one, now) and remove(one.path))]
        taken = sum(one.size for one in files)
        limit = self._limit if self._limit is not None else self._limit_beside(taken)
        if size > limit:
            return False
        if taken + size > limit:
            files = [one for one in files if one.path not in instead or not remove(one.path)]
            taken = sum(one.size for one in files)
        movable = [one for one in files if one.path.suffix == SUFFIX]
        fixed = Counter[str]()
        for one in files:
            fixed[client_of(one.salt)] += one.size if one.path.suffix != SUFFIX else 0
        gone = choose_victims(movable, taken + size - limit, {owner: size} if size else None, fixed)
        if gone is None and not size:  # files that nothing evicts take more than a bound that was lowered
            gone = movable
        return gone is not None and sum(not remove(one.path) for one in gone) == 0

    def _limit_beside(self, taken: int) -> int:
        """The shared bound while its files take so many bytes: they are free disk, too."""
        there = next((path for path in (self.pool, *self.pool.parents) if path.exists()), self.pool)
        try:
            return min(MOST, int(DISK_SHARE * (self._free(there) + taken)))
        except OSError as error:
            log.debug("%s: the free disk cannot be read: %s", there, error)
            return 0

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from making room meanwhile, where the file system can."""
        descriptor = os.open(self.pool, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not _lock(descriptor):
                log.debug("%s cannot be locked; two writers may exceed its bound by a file each", self.pool)
            yield
        finally:
            os.close(descriptor)


def sweep(root: Path, off: Collection[str], clock: Callable[[], float] = time.time) -> None:
    """Remove the states of all models in ``root`` that are too old, and all states of the models ``off``.

    Models that are served no more have nobody else who would. Never raises.
    """
    unwanted = {path for model in off for path in (states_path(root, model, shared=one)[1] for one in (True, False))}
    for folder in (*subfolders(root), *subfolders(root / SHARED)):
        for one in files_in(folder):
            if _outdated(one, clock()) or (folder in unwanted and one.path.suffix != KEPT):
                remove(one.path)


def states_path(root: Path, model: str, *, shared: bool) -> tuple[Path, Path]:
    """The folder under the bound, and in it, or the same, the folder of the model. Any name of a model is safe."""
    name = urllib.parse.quote(model, safe=" ")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 17]}-{hashlib.sha256(model.encode()).hexdigest()[:16]}"
    pool = root / SHARED if shared else root / name
    return pool, root / SHARED / name if shared else pool


def remove(path: Path) -> bool:
    """Delete a file. False when the system refuses."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
        return False
    return True


def _outdated(one: StateFile, now: float) -> bool:
    """Whether nobody wants a file any more. Of an unfinished one, a time to come says that a clock was set back."""
    age = now - one.used
    if one.path.suffix == PART:
        return abs(age) > WRITING_SECONDS
    return one.path.suffix == SUFFIX and age > KEPT_SECONDS


def _lock(descriptor: int) -> bool:
    """Lock a folder. False where the file system cannot, and when another process holds it for too long.

    A worker that was taken over may hold it for ever, which must not stop the others.
    """
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_SECONDS)
        except OSError:  # some network shares
            return False
        else:
            return True
    return False


def _create(path: Path, size: int) -> int:
    """The descriptor of a new file for its owner only. Its size shows other writers that the room is taken."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.ftruncate(descriptor, size)
    except BaseException:
        os.close(descriptor)
        remove(path)
        raise
    return descriptor
