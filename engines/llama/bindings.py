"""Modules of llama-cpp-python, without the package's own ``__init__``.

That imports NumPy, Jinja and the high-level class: 13 MB that a process never returns, and nobody here uses it. The
modules also import typing_extensions, 0.4 MB, for names that ``typing`` has.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import re
import sys
import threading
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "llama_cpp"
_lock = threading.Lock()


@functools.cache
def load(name: str) -> Any:
    """The module ``llama_cpp.<name>``. Raises ModuleNotFoundError when llama-cpp-python is not installed."""
    with _lock:
        if PACKAGE in sys.modules:
            return importlib.import_module(f"{PACKAGE}.{name}")
        with _standing_in({PACKAGE: _bare(), "typing_extensions": typing}):
            return importlib.import_module(f"{PACKAGE}.{name}")


@functools.cache
def version() -> str:
    """The version of llama-cpp-python; "" where its first module does not say.

    ``importlib.metadata`` would take 2 MB for it.
    """
    spec = importlib.util.find_spec(PACKAGE)
    text = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    return found[1] if found else ""


@contextlib.contextmanager
def _standing_in(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Let these modules stand for those of their names. Afterwards who imports one of them gets all of it."""
    added = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def _bare() -> ModuleType:
    """The package as a folder of modules."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("llama-cpp-python is not installed", name=PACKAGE)
    module = ModuleType(PACKAGE)
    module.__path__ = list(spec.submodule_search_locations)
    module.__spec__ = spec
    return module
