"""The steps and figures of the engine in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from edgeserve.engine import Batching, Engine, Footprint, Rung
from edgeserve.hosts.abilities import Abilities
from edgeserve.hosts.loop import Loop
from edgeserve.processes.state import EngineState
from edgeserve.slots import SlotState
from edgeserve.system import heap, libraries, pages
from edgeserve.units import MB

WORKER = 25 * MB
"""Private bytes of a worker beside its engine: the interpreter and the runtime's modules. Measured as 23 MB with
speech, and 27 MB with transcription (docs/benchmarks/memory_scenarios.md)."""
STEPS = ("open", "heat", "park", "shed", "restore", "limit", "place")
"""Methods of an engine that the serving process may call."""


class Steps:
    """On the engine's thread. ``confined``: the layers of confinement that are on, or off and why."""

    def __init__(self, engine: Engine, loop: Loop, confined: Mapping[str, str]) -> None:
        self._engine = engine
        self._able = Abilities.of(engine)
        self._loop = loop
        self._confined = confined
        self._idle: Iterator[None] | None = None
        self._private, self._found = 0, Footprint()
        self._beside = WORKER
        self._changed = self._used = False

    def take(self, method: str, arguments: Sequence[object]) -> object:
        """Do a step; returns its result. Raises the error of the engine, and ValueError for an unknown step."""
        if method == "idle":
            return self._idle_step()
        if method not in STEPS:
            raise ValueError(f"an engine has no step {method!r}")
        self._idle = None
        getattr(self._engine, method)(*arguments)
        self._changed = True
        if method in ("park", "shed"):  # the serving process measures what has come back
            self.give_back()
        if method in ("open", "heat", "park"):
            self.measure()
            if method == "open":  # no request has come yet
                self._beside = max(WORKER, self._private - self._found.private)
        else:
            self._found = self._engine.footprint()
        return None

    def keep(self, most: int) -> None:
        """As ``Thrifty.keep``. Any thread."""
        if self._able.thrifty:
            self._able.thrifty.keep(most)

    def use(self) -> None:
        """An answer begins: idle work that is under way is given up."""
        self._idle, self._used = None, True

    @property
    def used(self) -> bool:
        """True when answers have begun since memory was measured."""
        return self._used

    def measure(self) -> None:
        """Measure the memory of this process and its engine: some 17 ms for each GB.

        Never beside an answer: its end, or the next one's first token, would wait.
        """
        self._private, self._found = pages.private_bytes(), self._engine.footprint()
        self._used = False

    def give_back(self) -> None:
        """Return the heap's free pages after a change of rung, and below hot the pages of code too."""
        if self._changed:
            self._changed = False
            heap.collect()
            if self._engine.rung is not Rung.HOT:
                libraries.drop_pages()

    def state(self) -> EngineState:
        able, engine = self._able, self._engine
        savings = dict(able.thrifty.savings()) if able.thrifty else {}
        return EngineState(
            rung=int(engine.rung),
            footprint=self._footprint(savings.get("prefix_cache", 0)),
            savings=savings,
            context_tokens=able.contextual.context_tokens if able.contextual else None,
            slots=self._loop.slots,
            beside=self._engine.beside if isinstance(self._engine, Batching) else 0,
            starved=self._loop.starved,
            slot_states=self.slot_states(),
            confined=self._confined,
        )

    def slot_states(self) -> tuple[SlotState, ...]:
        return self._able.slotted.slot_states() if self._able.slotted else ()

    def _footprint(self, cached: int) -> Footprint:
        """The engine's figures as last measured, and this process beside it, which ends with the engine.

        The process counts as when it opened the engine, or with WORKER. More may be what requests hold, or have left:
        a learned peak would refuse others for it ever after. The server reads it beside the figures while it is there.
        ``cached`` bytes of saved states come on top.
        """
        if self._engine.rung is Rung.COLD:
            return self._found
        own = self._found.private
        return replace(self._found, private=max(own, min(self._private - cached, own + self._beside)))

    def _idle_step(self) -> bool:
        """One short step of the engine's idle work. False when there is none left."""
        if self._idle is None:
            self._idle = self._loop.idle_work()
        for _ in self._idle:
            return True
        self._idle = None
        return False
