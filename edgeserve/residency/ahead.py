"""The ways up that no request has asked for: at the start of the server, and ahead of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from edgeserve.jobs import Job
from edgeserve.memory.governor import Governor
from edgeserve.messages import Request
from edgeserve.residency.directory import Directory
from edgeserve.residency.gate import Gate
from edgeserve.residency.monitor import mapped_at_start
from edgeserve.residency.work import kind_of


class Ahead:
    """``gates``: those of all models now, by id. Another mapping takes its place when a model comes or goes.

    ``chains``: models to heat, where they fit, when a request of a kind begins.
    """

    def __init__(
        self,
        gates: Callable[[], Mapping[str, Gate]],
        directory: Directory,
        governor: Governor,
        chains: Mapping[str, Sequence[str]],
    ) -> None:
        self._gates = gates
        self._directory = directory
        self._governor = governor
        self.chains = chains

    async def start(self, preload: Iterable[str] = ()) -> None:
        """Bring the engines of ``preload`` up to hot, and those that are mapped at startup to warm."""
        gates = self._gates()
        wanted, mapped = set(preload), mapped_at_start(gate.host for gate in gates.values())
        for model, gate in gates.items():
            if model in wanted:
                await loaded(gate)
            elif model in mapped:
                await asyncio.to_thread(gate.map)
        if not wanted:
            await asyncio.to_thread(self._governor.release_idle_heap)

    def coming(self, jobs: Iterable[Job]) -> None:
        """Heat the one model of ``jobs``, if memory is free: the file that a request brings for it is being decoded.

        So the first request after a pause does not wait for the decoder and then for the model. Returns at once.
        """
        if (model := self._directory.only(jobs)) is not None:
            self._warm_up(model)

    def begun(self, request: Request) -> None:
        """Heat the models that follow a request of this kind, if memory is free. Returns at once. Any thread."""
        for model in self.chains.get(kind_of(request), ()):
            self._warm_up(model)

    def _warm_up(self, model: str) -> None:
        if (gate := self._gates().get(model)) is not None:
            gate.warm_up()


async def loaded(gate: Gate) -> None:
    """Wait until the engine is hot. Raises the error of the load, which others may wait for too."""
    load = asyncio.wrap_future(gate.preload_in_turn())
    load.add_done_callback(_seen)
    await asyncio.shield(load)


def _seen(load: asyncio.Future[None]) -> None:
    """Look at the error of a load: asyncio logs one that nobody waits for any more."""
    if not load.cancelled():
        load.exception()
