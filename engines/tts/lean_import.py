"""Import a package without one of its optional packages, since the memory of an import is never returned."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType


class _Missing:
    """A finder that reports one module as not installed, on its own thread only."""

    def __init__(self, name: str) -> None:
        self._name, self._thread = name, threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out", name=name)


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Imports on this thread behave as if ``name`` were not installed. A loaded module is still found."""
    finder = _Missing(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
