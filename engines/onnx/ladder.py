"""The residency ladder of a model on ONNX Runtime, whatever its task."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engine_abilities import Access
from edgeserve.engines import model_files
from edgeserve.engines.onnx import crowd, session
from edgeserve.errors import EngineFailure
from edgeserve.system import pages
from edgeserve.system.growth import Grown, Growth

M_co = TypeVar("M_co", covariant=True)
M = TypeVar("M")


class OnnxFiles(Protocol[M_co]):
    """A model that need not be open.

    - ``mapped``: files that an open model's weights are mapped from
    - ``packages``: packages that the model imports beside the runtime
    """

    mapped: tuple[Path, ...]
    packages: Sequence[str]

    def open(self) -> M_co:
        """Raises EngineFailure."""
        ...

    def close(self) -> None: ...

    def estimate(self) -> Footprint: ...

    def prefetch_files(self) -> Iterable[Path]:
        """Files that opening the model reads."""
        ...

    def folders(self) -> Iterable[Path]:
        """Folders that opening the model reads: graphs as ``prepare`` left them beside the model's files."""
        ...


class OnnxLadder(Generic[M]):
    """The rungs of a model.

    Warm, the sessions are open and no page of the mapped weights is resident. The heap pages that activations left
    free are returned. The memory that importing the runtime takes is never returned, serves other engines too, and
    is not counted.
    """

    def __init__(self, spec: ModelSpec, files: OnnxFiles[M]) -> None:
        self.spec = spec
        self._files = files
        self._model: M | None = None
        self._hot = False
        self._grown = Grown()

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        return self._files.estimate()

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        mapped, extra = pages.resident_mapped(*self._files.mapped), crowd.extra_bytes(self._model)
        return Footprint(mapped=mapped, private=self._grown.bytes + extra, exact=self._grown.exact)

    def prefetch_files(self) -> Iterable[Path]:
        return self._files.prefetch_files()

    def access(self) -> Access:
        return Access(read=tuple(self._files.folders()), gpu=session.uses_gpu(self.spec.device))

    def open(self) -> None:
        if self._model is not None:
            return
        model_files.require(self.spec.files.values())
        session.load()  # first: the runtime's own memory stays when the model goes, and is not the model's
        for package in self._files.packages:
            importlib.import_module(package)
        growth = Growth()
        self._model = self._files.open()
        session.release()
        self._grown = growth.end()
        pages.drop_mapped(*self._files.mapped)  # ONNX Runtime 1.32 reads all weights as it opens a model

    def heat(self) -> None:
        self.open()
        pages.populate_mapped(*self._files.mapped)
        self._hot = True

    def park(self) -> None:
        """Drop the mapped weights. A model without mapped weights is closed: it has no other memory to return."""
        if self._hot and not self._files.mapped:
            self.close()
        elif self._hot:
            self._hot = False
            crowd.shrink(self._model)
            pages.drop_mapped(*self._files.mapped)
            session.release()

    def close(self) -> None:
        self._hot = False
        if self._model is not None:
            self._model = None
            self._files.close()
            session.release()

    def _opened(self) -> M:
        """The model. Raises EngineFailure below hot."""
        if self._model is None or not self._hot:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        return self._model
