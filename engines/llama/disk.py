"""The disk of saved states, as the prefix cache uses it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.state_index import State


class Disk(Protocol):
    """Saved states in files (engines/llama/states.py), and those that wait to be written (state_writer.py)."""

    @property
    def limit(self) -> int: ...

    @property
    def limits_writes(self) -> bool:
        """Whether it takes so few bytes an hour that evictions for the sake of copies do not wear it out."""
        ...

    def spares(self, size: int) -> bool:
        """Whether it takes a state of ``size`` bytes that could as well be written later."""
        ...

    @property
    def waiting(self) -> Sequence[SavedState]: ...

    def settled(self) -> contextlib.AbstractContextManager[None]: ...

    def longest(self, tokens: Sequence[int], salt: str) -> tuple[State | None, int]: ...

    def read(self, state: Any) -> Any | None: ...

    def read_ahead(self, state: Any) -> None: ...

    def touch(self, state: Any) -> bool: ...

    def write(self, state: SavedState) -> bool: ...

    def drop(self, state: Any) -> None: ...

    def forget(self, tokens: Sequence[int], salt: str) -> None: ...

    def keep(self, name: str, state: SavedState) -> int: ...

    def kept(self, name: str, salt: str) -> tuple[SavedState, int]: ...
