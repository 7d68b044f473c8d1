"""Model files on disk, one folder a model, each with a manifest: pull, find, list, verify, remove.

A model appears in one step (a rename), complete, checked and on the disk, or not at all. Two processes that pull the
same model take turns; the second finds it done. A damaged model hurts no other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from edgeserve.errors import ConfigError, DiskFull, ModelDamaged, ModelMissing, NotFound, StoreError
from edgeserve.models import catalog, disk, leftovers, manifest, needs, partial
from edgeserve.models.leftovers import Leftover
from edgeserve.models.sources.source import Progress, check
from edgeserve.models.stored import StoredModel, in_place, prepare
from edgeserve.models.wanted import Wanted, mending, plain, understand

__all__ = ["Leftover", "Progress", "Store", "StoredModel", "default_root", "expanded"]

CONVERSION_SHARE = 2.5
"""A converted checkpoint in float32 beside the float16 original, for the time of the conversion."""


def expanded(folder: str) -> Path:
    """A path as the user writes it. Raises ConfigError where nobody knows whose home "~" is."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{folder}: nobody knows this home folder; write the path out, for models in EDGESERVE_MODELS_DIR"
        ) from None


def default_root(environ: Mapping[str, str]) -> Path:
    """Where models lie: $EDGESERVE_MODELS_DIR, else the user's data folder for this system. Raises ConfigError."""
    if named := environ.get("EDGESERVE_MODELS_DIR"):
        return expanded(named)
    home = expanded(environ.get("HOME") or "~")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "edgeserve" / "models"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "edgeserve" / "models"


class Store:
    """``free`` reads the free bytes of a folder's disk; ``sync`` waits until a path is on it; ``installed`` tells
    whether a Python module is there."""

    def __init__(
        self,
        root: Path,
        *,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        sync: disk.Sync = disk.sync,
        installed: needs.Installed = needs.installed,
    ) -> None:
        self.root = root
        self._free = free
        self._sync = sync
        self._installed = installed

    def pull(self, what: str, *, progress: Callable[[Progress], None] | None = None) -> StoredModel:
        """Fetch a catalogue model, ``hub:org/repo[/file][@revision]``, a URL, or take a local path; returns it. First
        what goes with it.

        Fetches nothing when it is here, unless it is damaged or an older version converted it. Then the engine does
        what it does once for a machine. Raises NotFound, and StoreError and its kinds.
        """
        wanted = understand(what)
        self._ready(wanted)
        tell = progress or (lambda progress: None)
        for companion in wanted.companions.values():
            self.pull(companion, progress=progress)
        return self._complete(wanted, in_place(wanted) if wanted.here is not None else self._pulled(wanted, tell))

    def ready(self, what: str) -> None:
        """Raises what ``pull`` would raise before it asks any source: a name that means nothing, what it is converted
        with, disk space."""
        wanted = understand(what, offline=True)
        if wanted.in_catalogue or not wanted.sources:  # of what is elsewhere, only its source knows more
            self._ready(wanted)

    def find(self, name: str) -> StoredModel:
        """A pulled model, or a local file to be used in place.

        Raises ModelMissing and ModelDamaged naming the command that mends it, also for one that an older version
        converted; StoreError for another model of the same name.
        """
        wanted = self._meant(name)
        return self._complete(wanted, in_place(wanted) if wanted.here is not None else self._read(wanted))

    def lacking(self, name: str) -> tuple[str, ...]:
        """Models that go with it and are not here, or damaged."""
        return tuple(one for one in self._meant(name).companions.values() if not self._usable(understand(one)))

    def needed(self, name: str) -> tuple[needs.Need, ...]:
        """Packages that a catalogue model lacks: to be converted, where it is not here yet, and to run."""
        if not catalog.knows(name):
            return ()
        wanted = understand(name)
        convert = "" if self._usable(wanted) else wanted.convert
        return (*needs.to_convert(convert, self._installed), *needs.to_run(wanted.options, self._installed))

    def list(self) -> tuple[StoredModel, ...]:
        """All that are whole."""
        return tuple(one for one in self._all().values() if isinstance(one, StoredModel))

    def damaged(self) -> Mapping[str, StoreError]:
        """Errors by the names of the models that are not whole; each says which file, and what mends it."""
        return {name: one for name, one in self._all().items() if isinstance(one, StoreError)}

    def leftovers(self) -> tuple[Leftover, ...]:
        """What pulls and removals that were broken off left here. ``remove`` takes their names."""
        with self._written("what was left"):
            return tuple(leftovers.everything(self.root))

    def remove(self, name: str) -> None:
        """Damaged models too, and what was left of pulls. Raises ModelMissing, and StoreError while it is pulled."""
        folder = self._folder(name)
        with self._written(folder):
            if not self._traces(folder):
                manifest.read(self.root / folder)
            with self._locked(folder, None):
                if (self.root / folder / manifest.FILE).exists():
                    self._aside(folder)
                elif not leftovers.of(self.root, folder):  # another process may have removed it meanwhile
                    manifest.read(self.root / folder)
                for path in leftovers.of(self.root, folder):
                    leftovers.delete(path)

    def verify(self, name: str, *, progress: Callable[[Progress], None] | None = None) -> StoredModel:
        """Read every file again. Raises ChecksumMismatch for one that changed, which is then removed."""
        if self._meant(name).here is not None:
            raise StoreError(f"{name} is used in place; there is no checksum to compare it with")
        stored = self.find(name)
        tell = progress or (lambda progress: None)
        with self._written(stored.name):
            for entry in manifest.read(self.root / stored.name).files.values():
                path = self.root / stored.name / entry.name
                check(path, entry.sha256, lambda done, total: tell(Progress(stored.name, "verify", done, total)))
        return stored

    # Names

    def _meant(self, name: str) -> Wanted:
        try:
            return understand(name, offline=True)
        except NotFound as error:
            # What came from an address is known by the name that `edgeserve list` shows.
            if plain(name) == name.lower():
                with contextlib.suppress(ModelMissing):
                    known = manifest.read(self.root / plain(name))
                    return Wanted(plain(name), known.job, known.engine)
            raise ModelMissing(error.message, param="model") from None

    def _folder(self, name: str) -> str:
        """The folder of a model that is to be removed; nothing in it need be readable."""
        if plain(name) == name and self._traces(name):
            return name
        try:
            wanted = understand(name, offline=True)
        except NotFound as error:
            raise ModelMissing(error.message, param="model") from None
        if wanted.here is not None:
            raise StoreError(f"{name} is used in place and was not pulled; remove the file yourself")
        return wanted.name

    def _traces(self, name: str) -> bool:
        return (self.root / name / manifest.FILE).exists() or bool(leftovers.of(self.root, name))

    # Reading

    def _all(self) -> Mapping[str, StoredModel | StoreError]:
        """Every folder with a manifest, by name."""
        with self._written("the list of models"):
            folders = sorted(self.root.glob(f"*/{manifest.FILE}")) if self.root.is_dir() else []
        names = (path.parent.name for path in folders)
        return {name: self._looked_at(name) for name in names if not name.startswith(".")}

    def _looked_at(self, name: str) -> StoredModel | StoreError:
        if plain(name) != name:
            return StoreError(f"{self.root / name} has a name that no model gets; rename or remove the folder yourself")
        try:
            return self._stored(name, manifest.read(self.root / name))
        except StoreError as error:
            return error

    def _read(self, wanted: Wanted) -> StoredModel:
        name = wanted.name
        known = manifest.read(self.root / name)
        if not wanted.comes_from(known.source):
            raise StoreError(
                f"{name} is here, but it came from {known.source}; `edgeserve remove {name}` makes room for another"
            )
        if known.job != wanted.job:
            raise ModelDamaged(
                f"{self.root / name / manifest.FILE} is damaged: {name} is made for {wanted.job}, not {known.job}; "
                f"{mending(name, known.source)}"
            )
        if known.outdated:
            raise ModelMissing(
                f"{name} was converted by an older edgeserve and cannot be used; `edgeserve pull {name}` converts it "
                f"again (it came from {known.source})"
            )
        return self._stored(name, known)

    def _usable(self, wanted: Wanted) -> bool:
        try:
            self._read(wanted)
        except StoreError:
            return False
        return True

    def _stored(self, name: str, known: manifest.Manifest) -> StoredModel:
        files = manifest.files_in(self.root / name, known)
        return StoredModel(
            name, known.job, known.engine, files, known.size_bytes, known.licence, known.source, known.options
        )

    def _complete(self, wanted: Wanted, stored: StoredModel) -> StoredModel:
        """With the files of the models that go with it, as far as they are here."""
        files = dict(stored.files)
        for role, companion in wanted.companions.items():
            with contextlib.suppress(ModelMissing):
                files[role] = self._read(understand(companion)).files[role]
        return dataclasses.replace(stored, files=files)

    # Writing

    def _ready(self, wanted: Wanted) -> None:
        if wanted.here is not None or self._usable(wanted):
            return
        if lacking := needs.to_convert(wanted.convert, self._installed):
            raise StoreError(
                f"{wanted.name} is converted when it is pulled, which needs {needs.packages(lacking)}: "
                f"{needs.command(lacking)}"
            )
        self._room(wanted)

    def _pulled(self, wanted: Wanted, tell: Callable[[Progress], None]) -> StoredModel:
        name = wanted.name
        with self._written(name), self._locked(name, tell):
            with contextlib.suppress(ModelMissing, ModelDamaged):
                return self._read(wanted)
            self._room(wanted)
            new = leftovers.partial(self.root, name)
            partial.fill(new, wanted, tell, self._sync)
            old = self._aside(name) if (self.root / name).exists() else None  # damaged, or of an older version
            new.rename(self.root / name)
            self._sync(self.root)
            if old is not None:
                leftovers.delete(old)
            stored = self._read(wanted)
            prepare(stored, tell)
            return stored

    def _room(self, wanted: Wanted) -> None:
        with self._written(wanted.name):
            self.root.mkdir(parents=True, exist_ok=True)
            free = self._free(self.root)
        need = int(wanted.size_bytes * (1 + (CONVERSION_SHARE if wanted.convert else 1.05)))
        if free < need:
            raise DiskFull(
                f"{wanted.name} needs {need >> 20} MB of disk while it is pulled; {free >> 20} MB are free in "
                f"{self.root}: remove a model with `edgeserve remove`, or set EDGESERVE_MODELS_DIR to another disk"
            )

    @contextlib.contextmanager
    def _written(self, name: str) -> Iterator[None]:
        """Translates the errors of the disk."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(
                    f"{name}: the disk of {self.root} is full; remove a model with `edgeserve remove`, or set "
                    "EDGESERVE_MODELS_DIR to another disk"
                ) from error
            raise StoreError(f"{name} cannot be read or written in {self.root}: {error}") from error

    @contextlib.contextmanager
    def _locked(self, name: str, tell: Callable[[Progress], None] | None) -> Iterator[None]:
        """``tell`` hears that another process is waited for; without it that is an error."""
        self.root.mkdir(parents=True, exist_ok=True)
        with leftovers.lock_file(self.root, name).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if tell is None:
                    raise StoreError(f"{name} is being pulled or removed by another process; end that first") from None
                tell(Progress(name, "wait", 0, 0))
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _aside(self, name: str) -> Path:
        """Takes a model out of sight, to be deleted: a half-removed one must not be found."""
        gone = leftovers.removed(self.root, name)
        if gone.exists():  # of a removal that was killed
            leftovers.delete(gone)
        (self.root / name).rename(gone)
        return gone
