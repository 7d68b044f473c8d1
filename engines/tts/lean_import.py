"""Import a package without an optional one that it would take: what a runtime loads is never returned."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType


class _Missing:
    """A finder to which one module is not installed, on the thread that made it; others import it as ever."""

    def __init__(self, name: str) -> None:
        self._name, self._thread = name, threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out", name=name)


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Imports on this thread do as if ``name`` were not installed. One that is loaded already is found all the same."""
    finder = _Missing(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
