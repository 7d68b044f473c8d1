"""Models on this device, one folder each, with a manifest: pull, find, list, verify, remove.

A pulled model appears by one rename, complete and checked. Two processes that pull the same model take turns; the
second finds the model done. A damaged model hurts no other.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgeserve.errors import DiskFull, InUse, ModelDamaged, ModelMissing, ModelUnknown, NotFound, StoreError
from edgeserve.models import catalog, disk, leftovers, manifest, needs, partial, served, stale
from edgeserve.models.inventory import Inventory
from edgeserve.models.leftovers import Leftover
from edgeserve.models.lock import locked
from edgeserve.models.sources.checksum import check
from edgeserve.models.sources.source import KEPT_FREE, Progress
from edgeserve.models.stored import StoredModel, in_place, prepare
from edgeserve.models.wanted import Wanted, is_path, plain, understand

__all__ = ["Leftover", "Progress", "Store", "StoredModel"]

PULL_SHARE = 2.05
"""Disk for a pull, in sizes of the model: the package, and the files unpacked beside it."""
CONVERSION_SHARE = 3.5
"""Disk for a pull with a conversion: the checkpoint in float16, and the converted model in float32 beside it."""

Tell = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Tell nobody."""


class Store:
    """The models in the folder ``root``.

    Arguments:
        free       reads the free bytes of a folder's disk
        sync       waits until a path is on the disk
        installed  says whether a Python module is installed
    """

    def __init__(
        self,
        root: Path,
        *,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        sync: disk.Sync = disk.sync,
        installed: needs.Installed = needs.installed,
    ) -> None:
        self.root = root
        self._inventory = Inventory(root)
        self._free = free
        self._sync = sync
        self._installed = installed

    def pull(self, what: str, *, progress: Tell = silent) -> StoredModel:
        """Fetch a model and its companions, unless they are here, and prepare it for this machine.

        ``what``: catalogue name, ``hub:org/repo[/file][@revision]``, URL or local path. A damaged model, or one that
        an older version converted, is fetched again. Raises NotFound, and StoreError and its kinds.
        """
        wanted = understand(what)
        self._check(wanted)
        for companion in wanted.companions.values():
            self.pull(companion, progress=progress)
        stored = in_place(wanted) if wanted.here is not None else self._pulled(wanted, progress)
        return self._inventory.with_companions(wanted, stored)

    def renew(self, name: str, *, progress: Tell = silent) -> StoredModel:
        """Fetch a model of the catalogue again, and replace the one that is here once the new one is complete.

        Raises as ``pull`` does.
        """
        wanted = understand(name)
        self._check_space(wanted)
        return self._inventory.with_companions(wanted, self._pulled(wanted, progress, anew=True))

    def ready(self, what: str) -> None:
        """Raise the errors of ``pull`` that are known without a source: unknown name, missing package, full disk."""
        wanted = understand(what, offline=True)
        if wanted.in_catalogue or not wanted.sources:  # only its source knows the size of any other model
            self._check(wanted)

    def find(self, name: str) -> StoredModel:
        """A pulled model, or a local file to use in place.

        Raises ModelMissing (also for a model that an older version converted) and ModelDamaged, both with the command
        that mends it, ModelUnknown, and StoreError for another model of the same name.
        """
        wanted = self._meant(name)
        stored = in_place(wanted) if wanted.here is not None else self._inventory.read(wanted)
        return self._inventory.with_companions(wanted, stored)

    def pulled(self, name: str) -> StoredModel:
        """The pulled model whose folder has this name, in any case of letters; never a file in place.

        Raises ModelMissing, and as ``find``.
        """
        folder = name.lower()
        if plain(folder) != folder or not (self.root / folder / manifest.FILE).is_file():
            raise ModelMissing(f"{name!r} was not pulled", param="model")
        known = manifest.read(self.root / folder)
        wanted = Wanted(folder, known.job, known.engine)
        return self._inventory.with_companions(wanted, self._inventory.read(wanted))

    def lacking(self, name: str) -> tuple[str, ...]:
        """Companions of the model that are missing or damaged."""
        companions = self._meant(name).companions.values()
        return tuple(one for one in companions if not self._inventory.usable(understand(one)))

    def needed(self, name: str) -> tuple[needs.Need, ...]:
        """Packages that a catalogue model lacks to run, and to be converted where it is not pulled yet."""
        if not catalog.knows(name):
            return ()
        wanted = understand(name)
        convert = "" if self._inventory.usable(wanted) else wanted.convert
        return (*needs.to_convert(convert, self._installed), *needs.to_run(wanted.options, self._installed))

    def list(self) -> tuple[StoredModel, ...]:
        """All pulled models that are complete."""
        return tuple(one for one in self._inventory.everything().values() if isinstance(one, StoredModel))

    def damaged(self) -> Mapping[str, StoreError]:
        """Errors of the damaged models, by name; each says which file is wrong and how to mend it."""
        return {name: one for name, one in self._inventory.everything().items() if isinstance(one, StoreError)}

    def leftovers(self) -> tuple[Leftover, ...]:
        """Leftovers of interrupted pulls and removals. ``remove`` takes their names."""
        with disk.failures(self.root, "the list of interrupted pulls"):
            return tuple(leftovers.everything(self.root))

    def stale(self) -> Mapping[str, str]:
        """Pulled models that are behind the catalogue, by name, with the reason. Damaged ones are left out.

        A model from an address of the user stays, also where a newer catalogue has another one of its name.
        """
        found = {}
        for one in self.list():
            if catalog.knows(one.name) and understand(one.name).comes_from(one.source):
                known = manifest.read(self.root / one.name)
                if why := stale.reason(catalog.find(one.name), known):
                    found[one.name] = why
        return found

    def discard(self, left: Leftover) -> None:
        """Delete a leftover, and not the model of its name. Raises StoreError while another process works on it."""
        with disk.failures(self.root, left.name), locked(self.root, left.name):
            if left.path.exists():  # another process may have ended it meanwhile
                leftovers.delete(left.path)

    def remove(self, name: str) -> None:
        """Delete a model, damaged or not, and its leftovers.

        Raises ModelMissing, StoreError during a pull, and InUse where another process serves the model.
        """
        folder = self.folder(name)
        with disk.failures(self.root, folder):
            if users := self.users(folder):
                text = f"{folder} is in use by the server {' and '.join(users)} (process and host): take it out of its"
                text += f" settings and reload, let it delete the model itself (`edgeserve rm {folder}`), or end it"
                raise InUse(text)
            if not self._traces(folder):
                manifest.read(self.root / folder)
            with locked(self.root, folder):
                if (self.root / folder / manifest.FILE).exists():
                    leftovers.set_aside(self.root, folder)
                elif not leftovers.of(self.root, folder):  # another process may have removed it meanwhile
                    manifest.read(self.root / folder)
                for path in leftovers.of(self.root, folder):
                    leftovers.delete(path)

    def users(self, folder: str) -> Sequence[str]:
        """Servers in other processes that serve a model, as PROCESS@HOST. Raises StoreError."""
        with disk.failures(self.root, folder):
            return served.servers_of(self.root, folder)

    def verify(self, name: str, *, progress: Tell = silent) -> StoredModel:
        """Compare every file with its checksum. Removes a file that changed and raises ChecksumMismatch."""
        if self._meant(name).here is not None:
            raise StoreError(f"{name} is used in place; there is no checksum to compare it with")
        stored = self.find(name)
        with disk.failures(self.root, stored.name):
            for entry in manifest.read(self.root / stored.name).files.values():
                path = self.root / stored.name / entry.name
                check(path, entry.sha256, lambda done, total: progress(Progress(stored.name, "verify", done, total)))
        return stored

    def _meant(self, name: str) -> Wanted:
        """The model that a name means, asked of no source.

        Raises ModelMissing for a path without a model, whose disk may yet come, and else ModelUnknown.
        """
        try:
            return self._as_stored(understand(name, offline=True))
        except (NotFound, StoreError) as error:
            # A model pulled from an address is known by the name that `edgeserve list` shows.
            if plain(name) == name.lower():
                with contextlib.suppress(ModelMissing):
                    known = manifest.read(self.root / plain(name))
                    return Wanted(plain(name), known.job, known.engine)
            kind = ModelMissing if is_path(name) else ModelUnknown
            raise kind(error.message, param="model") from None

    def _as_stored(self, wanted: Wanted) -> Wanted:
        """The model with the job that it was pulled with, if it was pulled and nothing else gives the job."""
        if not wanted.guessed:
            return wanted
        with contextlib.suppress(StoreError):  # a damaged one is refused when it is read
            known = manifest.read(self.root / wanted.name)
            return replace(wanted, job=known.job, engine=known.engine, convert="")
        return wanted

    def folder(self, name: str) -> str:
        """The folder of a model to remove, below ``root``. Its manifest may be unreadable.

        Raises ModelMissing for an unknown name, and StoreError for a file used in place.
        """
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

    def _check(self, wanted: Wanted) -> None:
        """Raises StoreError when a pull cannot succeed here: a package or disk space is missing."""
        if wanted.here is not None or self._inventory.usable(wanted):
            return
        if lacking := needs.to_convert(wanted.convert, self._installed):
            raise StoreError(
                f"{wanted.name} is converted when it is pulled, which needs {needs.packages(lacking)}: "
                f"{needs.command(lacking)}"
            )
        self._check_space(wanted)

    def _check_space(self, wanted: Wanted) -> None:
        with disk.failures(self.root, wanted.name):
            self.root.mkdir(parents=True, exist_ok=True)
            free = self._free(self.root)
        need = int(wanted.size_bytes * (CONVERSION_SHARE if wanted.convert else PULL_SHARE))
        if free < need:
            raise DiskFull(
                f"{wanted.name} needs {need >> 20} MB of disk while it is pulled; {free >> 20} MB are free in "
                f"{self.root}: remove a model with `edgeserve remove`, or set EDGESERVE_MODELS_DIR to another disk"
            )

    def _watched(self, name: str, tell: Tell) -> Tell:
        """``tell``, which also raises DiskFull: a source may send more than it said, and other pulls write, too."""

        def told(progress: Progress) -> None:
            tell(progress)
            if progress.stage == "download" and (free := self._free(self.root)) < KEPT_FREE:
                raise DiskFull(
                    f"{name} was not pulled to its end: {free >> 20} MB are free in {self.root}, and a download leaves "
                    f"{KEPT_FREE >> 20} MB to others: remove a model with `edgeserve remove` (`{name}` removes "
                    "what has come), or set EDGESERVE_MODELS_DIR to another disk"
                )

        return told

    def _pulled(self, wanted: Wanted, tell: Tell, *, anew: bool = False) -> StoredModel:
        name = wanted.name
        waiting = Progress(name, "wait", 0, 0)
        with disk.failures(self.root, name), locked(self.root, name, lambda: tell(waiting)):
            if not anew:
                with contextlib.suppress(ModelMissing, ModelDamaged):
                    return self._inventory.read(self._as_stored(wanted))
            self._check_space(wanted)
            new = leftovers.partial(self.root, name)
            partial.fill(new, wanted, self._watched(name, tell), self._sync)
            # The old folder is damaged, or behind the catalogue.
            old = leftovers.set_aside(self.root, name) if (self.root / name).exists() else None
            new.rename(self.root / name)
            self._sync(self.root)
            if old is not None:
                leftovers.delete(old)
            stored = self._inventory.read(self._as_stored(wanted))
            prepare(stored, tell)
            return stored
