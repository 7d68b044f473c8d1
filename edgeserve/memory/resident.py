"""An engine as the governor sees it, and its steps down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.memory.amount import NOTHING, Amount, without_requests


class Resident(Protocol):
    """An engine as the governor sees it; the gate is one. ``last_used`` is on the accounts' clock."""

    pinned: bool

    @property
    def last_used(self) -> float: ...
    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> ModelSpec: ...
    @property
    def rung(self) -> Rung: ...
    @property
    def in_process(self) -> bool:
        """Whether its memory is a part of the serving process's."""
        ...

    @property
    def pid(self) -> int | None:
        """The process of its own; None in the serving process, and while there is none. Any thread."""
        ...

    @property
    def leases(self) -> int: ...
    @property
    def rounds(self) -> int:
        """Steps that the answers of the engine have taken. Any thread."""
        ...

    @property
    def unread(self) -> bool:
        """Whether the engine is at work only for readers that have not read for long. Any thread."""
        ...

    def wake(self) -> None:
        """Let answers under way look whether others wait for their memory. Never waits; any thread."""
        ...

    def cut_all_unread(self) -> None:
        """End that work, where ``unread`` still holds. Never waits; any thread."""
        ...

    def cut_unread(self) -> None:
        """End each answer that has waited for its reader for long, for others' sake. Never waits; any thread."""
        ...

    def estimate(self) -> Footprint: ...
    def footprint(self) -> Footprint: ...

    def step_down(self, to: Rung, *, leased: bool = False) -> Moved | Refused:
        """Down to ``to`` on the calling thread. Refuses at once when there already, leased or at work; never waits.

        ``leased``: leases whose work has not begun do not count.
        """
        ...

    def savings(self) -> Mapping[str, int]:
        """Bytes that the engine could do without, by kind (``Thrifty``); empty for most. Any thread."""
        ...

    def shed(self, kind: str, amount: int) -> bool:
        """Save at least ``amount`` bytes, or all that was offered. False when at work, or when there is no such saving.

        Never waits; any thread."""
        ...

    def keep(self, most: int) -> None:
        """Keep at most so many bytes of past prompts from now on, at work too. Never waits; any thread."""
        ...

    def restore(self) -> bool:
        """Take the next way up with everything that is configured. False as for ``shed``."""
        ...


@dataclass(frozen=True, slots=True)
class Moved:
    """A step down that happened, read while no other thread could move the engine.

    ``held`` before the step, ``left`` after it; ``cached``: the prefix cache, a part of ``left``."""

    before: Rung
    after: Rung
    held: Amount
    left: Amount
    cached: Amount = NOTHING


@dataclass(frozen=True, slots=True)
class Refused:
    """A step down that did not happen, with the reason."""

    reason: Literal["already there", "leased", "at work"]


def cached(resident: Resident) -> Amount:
    """The engine's prefix cache, by its own figure."""
    return Amount(private=resident.savings().get("prefix_cache", 0))


def taken(resident: Resident) -> Amount:
    """Memory that the engine holds now by its own figure, prefix cache included.

    Asks the engine, so the lock of the accounts must not be held."""
    return without_requests(resident.footprint()) + cached(resident)
