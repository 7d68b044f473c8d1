"""The abilities of an engine beyond the steps that every engine has."""

from __future__ import annotations

from edgeserve.dataclass import dataclass
from edgeserve.engine import Engine
from edgeserve.engine_abilities import Contextual, Detecting, Limited, Prefetchable, Preparing, Slotted, Thrifty
from edgeserve.residency.work import METHODS


@dataclass(frozen=True, slots=True)
class Abilities:
    """The optional parts of the contract, None for each that the engine lacks. ``kinds``: the requests it answers."""

    kinds: frozenset[type]
    thrifty: Thrifty | None = None
    limited: Limited | None = None
    preparing: Preparing | None = None
    prefetchable: Prefetchable | None = None
    contextual: Contextual | None = None
    slotted: Slotted | None = None
    detecting: Detecting | None = None

    @classmethod
    def of(cls, engine: Engine) -> Abilities:
        return cls(
            kinds=frozenset(kind for kind, method in METHODS.items() if hasattr(engine, method)),
            thrifty=engine if isinstance(engine, Thrifty) else None,
            limited=engine if isinstance(engine, Limited) else None,
            preparing=engine if isinstance(engine, Preparing) else None,
            prefetchable=engine if isinstance(engine, Prefetchable) else None,
            contextual=engine if isinstance(engine, Contextual) else None,
            slotted=engine if isinstance(engine, Slotted) else None,
            detecting=engine if isinstance(engine, Detecting) and engine.detects else None,
        )
