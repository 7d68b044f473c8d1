"""Modules that libraries import early and use rarely: their code runs at the first use, or never.

The memory of an import is never returned, and an idle server would hold it without use.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_RUNS = threading.RLock()


def defer(*names: str) -> None:
    """Let each module be importable now, and run its code when somebody asks for one of its names.

    ``import a`` and ``import a.b`` of a deferred package ``a`` run nothing of ``a``, as ``importlib.util.LazyLoader``
    would. ``from a import name`` does. Modules that are imported already stay as they are. The parent of a module is
    imported. Raises ModuleNotFoundError.
    """
    for name in names:
        if name not in sys.modules:
            _defer(name)


def _defer(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    loader, module = spec.loader, importlib.util.module_from_spec(spec)

    running = False

    def run(wanted: str) -> Any:
        nonlocal running
        with _RUNS:  # a second thread waits until the code has run
            if running:  # the code itself asks for a name that it has not set
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}", name=wanted, obj=module)
            if module.__dict__.get("__getattr__") is run:
                running = True
                try:
                    loader.exec_module(module)
                finally:
                    running = False
                if module.__dict__.get("__getattr__") is run:  # kept until now, so that other threads come here
                    del module.__dict__["__getattr__"]
        return getattr(module, wanted)

    module.__dict__["__getattr__"] = run
    sys.modules[name] = module
    _bind(name, module)


def _bind(name: str, module: ModuleType) -> None:
    """Let the package of a module have it as an attribute, as an import does."""
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, module)
