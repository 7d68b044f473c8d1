"""The pulled models of one folder, as their manifests list them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.errors import ModelDamaged, ModelMissing, StoreError
from edgeserve.models import disk, manifest
from edgeserve.models.stored import StoredModel
from edgeserve.models.wanted import Wanted, mending, plain, understand


@dataclass(frozen=True, slots=True)
class Inventory:
    """Reads the folder ``root``; writes nothing."""

    root: Path

    def read(self, wanted: Wanted) -> StoredModel:
        """The stored model. Raises ModelMissing, ModelDamaged, and StoreError for another model of the same name."""
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

    def usable(self, wanted: Wanted) -> bool:
        """Whether ``read`` returns the model."""
        try:
            self.read(wanted)
        except StoreError:
            return False
        return True

    def everything(self) -> Mapping[str, StoredModel | StoreError]:
        """All folders with a manifest, by name: the model, or the error that says why it cannot be used."""
        with disk.failures(self.root, "the list of models"):
            folders = sorted(self.root.glob(f"*/{manifest.FILE}")) if self.root.is_dir() else []
        names = (path.parent.name for path in folders)
        return {name: self._model_or_error(name) for name in names if not name.startswith(".")}

    def with_companions(self, wanted: Wanted, stored: StoredModel) -> StoredModel:
        """The model with the files of its companions. Companions that are not pulled are left out."""
        files = dict(stored.files)
        for role, companion in wanted.companions.items():
            with contextlib.suppress(ModelMissing):
                files[role] = self.read(understand(companion)).files[role]
        return dataclasses.replace(stored, files=files)

    def _model_or_error(self, name: str) -> StoredModel | StoreError:
        if plain(name) != name:
            return StoreError(f"{self.root / name} has a name that no model gets; rename or remove the folder yourself")
        try:
            return self._stored(name, manifest.read(self.root / name))
        except StoreError as error:
            return error

    def _stored(self, name: str, known: manifest.Manifest) -> StoredModel:
        files = manifest.files_in(self.root / name, known)
        return StoredModel(
            name, known.job, known.engine, files, known.size_bytes, known.licence, known.source, known.options
        )
