"""An engine in a worker whose model lies on several machines: the plan of its parts, and their memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

from edgeserve.dataclass import dataclass
from edgeserve.engine import Engine, Footprint, Rung
from edgeserve.engine_abilities import RemotePart, Splitting
from edgeserve.errors import DoesNotFit, EdgeserveError, EngineFailure, Unreachable
from edgeserve.hosts.node_watch import EVERY, NodeWatch
from edgeserve.hosts.remote import RemoteEngine
from edgeserve.hosts.steps import WORKER
from edgeserve.processes.launcher import Launcher
from edgeserve.splits import asking, node, plan
from edgeserve.splits.plan import Part, Room
from edgeserve.splits.pulse import MISSES, Pulses
from edgeserve.units import MB

log = logging.getLogger("edgeserve.process")

HERE = "this machine"
FAREWELL = 3.0
"""Seconds for each machine to answer when a worker has died. It may compute the last step yet."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The parts of a model, this machine's first, and its context in tokens. ``endpoints`` belong to the others."""

    parts: tuple[Part, ...]
    endpoints: tuple[str, ...]
    context: int


class SplitEngine(RemoteEngine):
    """As ``RemoteEngine``. ``room``: bytes that the model may take on this machine. ``ask``: see ``asking.ask``."""

    def __init__(
        self,
        local: Engine,
        launcher: Launcher,
        *,
        room: Callable[[], int],
        ask: Callable[..., asking.Offer] = asking.ask,
        resolve: Callable[[node.Node], str] = node.resolve,
        pulses: Callable[[Sequence[str]], Pulses] = Pulses,
        look_every: float = EVERY,
        **settings: Any,
    ) -> None:
        super().__init__(local, launcher, explain=self._find_lost, **settings)
        self._split = cast(Splitting, local)
        self._room = room
        self._ask_node = ask
        self._resolve = resolve
        self._pulses = pulses
        self._look_every = look_every
        self._planned: Placement | None = None
        self.node_watch: NodeWatch | None = None
        self._silent: Sequence[str] = ()

    @property
    def remote_parts(self) -> tuple[RemotePart, ...]:
        placed = self._planned if self.rung is Rung.HOT else None
        return tuple(RemotePart(one.name, one.layers, one.size) for one in placed.parts[1:]) if placed else ()

    def estimate(self) -> Footprint:
        """The part of this machine. Until it is planned: an equal share, or all the room that there is here.

        Asks nobody: ``heat`` does, and refuses what does not fit.
        """
        room = max(0, self._room() - WORKER)
        sizes = self._split.sizes(self._split.contexts()[0])
        layers, *_ = plan.allocate(len(sizes.layers), [1] * (1 + len(self._split.nodes)))
        share = sizes.fixed(2)[0] + sum(sizes.layers[:layers]) + layers * sizes.cache
        return Footprint(private=min(share, room) + WORKER)

    def heat(self) -> None:
        """Raises DoesNotFit when a machine has no room for its part, EngineFailure when it does not answer."""
        placed = self._planned = self._plan()
        self._ask("place", placed.endpoints, [one.layers for one in placed.parts], placed.context)
        for one in placed.parts:
            log.info("%s: %s on %s, %d MB", self.spec.name, plan.counted(one.layers), one.name, one.size // MB)
        self._watch_nodes(placed.endpoints)
        self._ask("heat")

    def park(self) -> None:
        super().park()
        self._watch_no_more()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._watch_no_more()

    def check_nodes(self, make_way: Callable[[], None]) -> None:
        for one in self._split.nodes:
            make_way()  # one that hangs takes seconds
            self._ask_node(self._resolve(node.read_node(one)))

    def _watch_nodes(self, endpoints: Sequence[str]) -> None:
        """Notice a machine that hangs, from the load on. Raises Busy as ``NodeWatch`` does."""
        self._watch_no_more()
        self._silent = ()
        pulses = self._pulses(endpoints)
        for one in pulses.meet():
            log.warning(
                "%s: %s gives no pulse by UDP: if it hangs, that is noticed after minutes only", self.spec.name, one
            )
        self.node_watch = NodeWatch(pulses, self._owes, self._end_worker, self._look_every)

    def _watch_no_more(self) -> None:
        if self.node_watch is not None:
            self.node_watch.stop()
            self.node_watch = None

    def _owes(self) -> bool:
        return bool((link := self.link) and link.owes)

    def _end_worker(self, silent: Sequence[str]) -> None:
        """End the worker, which would wait for these machines for ever. On the thread of the watch."""
        self._silent = silent
        if link := self.link:
            link.kill(f"{', '.join(silent)} gave no sign of life for {MISSES} s")

    def _plan(self) -> Placement:
        endpoints = tuple(self._resolve(node.read_node(one)) for one in self._split.nodes)
        rooms = [Room(HERE, max(0, self._room() - WORKER))]
        rooms += [Room(name, self._ask_node(one).free) for name, one in zip(self._split.nodes, endpoints, strict=True)]
        contexts = self._split.contexts()
        for context in contexts:
            try:
                return Placement(plan.split(self._split.sizes(context), rooms), endpoints, context)
            except DoesNotFit as error:
                if context == contexts[-1]:
                    raise DoesNotFit(f"{self.spec.name}: {error.message}") from error
        raise EngineFailure(f"{self.spec.name} has no size of context")  # no engine offers none

    def _find_lost(self, text: str) -> EngineFailure:
        """The cause of the worker's death: a machine that does not answer any more, if there is one."""
        if (placed := self._planned) is None:
            return EngineFailure(text)
        others = zip(placed.parts[1:], placed.endpoints, strict=True)
        is_lost = self._silent.__contains__ if self._silent else lambda one: not self._answers(one)
        lost = [f"{part.name} with {plan.counted(part.layers)}" for part, one in others if is_lost(one)]
        if lost:
            return Unreachable(f"{self.spec.name} has lost {', '.join(lost)}: {text}")
        # One may have sent what llama.cpp cannot read, or have begun again already.
        names = ", ".join(part.name for part in placed.parts[1:])
        return EngineFailure(f"{text}; the machines of its other layers answer now, and one may log why: {names}")

    def _answers(self, endpoint: str) -> bool:
        try:
            self._ask_node(endpoint, FAREWELL)
        except EdgeserveError:
            return False
        return True
