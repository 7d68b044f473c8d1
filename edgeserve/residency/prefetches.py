"""The prefetches of all models: their files come into the page cache while a request for them comes in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from edgeserve.engine import Rung
from edgeserve.jobs import Job
from edgeserve.memory.governor import Governor
from edgeserve.residency.directory import Directory
from edgeserve.residency.gate import Gate
from edgeserve.system.prefetch import Prefetch


class Prefetches:
    """Used on the event loop's thread."""

    def __init__(self, governor: Governor, directory: Directory) -> None:
        self._governor, self._directory = governor, directory
        self._by_model: dict[str, Prefetch] = {}

    def add(self, gate: Gate) -> None:
        self._by_model[gate.id] = Prefetch(gate.host.prefetch_files, lambda: gate.rung is not Rung.HOT, self._room)

    def pop(self, model: str) -> Prefetch:
        """Take a model's prefetch out. The caller stops it."""
        return self._by_model.pop(model)

    def expect(self, jobs: Sequence[Job]) -> None:
        """Fetch the files of the one model of ``jobs``: a request for it is coming in.

        Returns at once. Does nothing for an engine that is hot, and where several models may be meant.
        """
        if (model := self._directory.only(jobs)) is not None:
            self.expect_model(model)

    def expect_model(self, model: str) -> None:
        """Fetch the files of a model that a request names, as ``expect`` does."""
        if model in self._by_model:
            self._by_model[model].start()

    async def stop(self) -> None:
        for prefetch in tuple(self._by_model.values()):
            await asyncio.to_thread(prefetch.stop)

    def _room(self) -> int:
        """Bytes free for the page cache beside the weights in use."""
        readings = self._governor.probe.latest()
        return readings.available - readings.process.file
