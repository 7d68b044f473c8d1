"""One answer that is under way, and its end."""

from __future__ import annotations

from collections.abc import Generator

from edgeserve.dataclass import dataclass
from edgeserve.messages import Event
from edgeserve.residency.work import Admitted, Work

Answer = Generator[Event | None, None, None]
"""Events; None each time that the answer needs a step, or lets others have their turn."""


@dataclass(slots=True, eq=False)
class Run:
    """One answer under way.

    - ``paused``: the time at which its reader ran out of room, less ``waited``; None while it has room
    - ``waited``: seconds for which it has waited for its reader in others' way, once it was ``spent``
    - ``spent``: it went on without room as far as it may, and its reader has had none since
    - ``step``: seconds of its latest step, before its first one those of the longest of others
    """

    admitted: Admitted
    answer: Answer
    step: float = 0.0
    events: int = 0
    paused: float | None = None
    waited: float = 0.0
    spent: bool = False

    @property
    def work(self) -> Work:
        return self.admitted.work

    @property
    def key(self) -> tuple[str, ...]:
        """The widest group of its client, all answers of which share one part of the time."""
        return self.work.place.groups[0]

    @property
    def blocked(self) -> bool:
        """True while the answer waits for its reader and is still wanted."""
        return self.paused is not None and not self.work.cancel.is_set() and not self.work.room()


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer that has ended; ``error`` is None when it ended well."""

    admitted: Admitted
    error: Exception | None = None
