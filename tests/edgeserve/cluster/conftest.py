"""Tests of several boxes are left out, all in one line, where what they need is not installed."""

from __future__ import annotations

import functools
import importlib.util
import shutil

import pytest
from support import herd

from edgeserve.engines.llama import rpc

INSTALLED = {
    "Ray": lambda: importlib.util.find_spec("ray") is not None,
    "Caddy": lambda: shutil.which("caddy") is not None,
    "ollama-herd": herd.installed,
    "llama.cpp's RPC": lambda: rpc.plugin() is not None,
}
"""By the name that a test gives: ``pytest.mark.boxes("Ray")``."""


@functools.cache
def lacking() -> tuple[str, ...]:
    return tuple(name for name, is_installed in INSTALLED.items() if not is_installed())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """pytest folds what is skipped here with the same words; of ``skipif`` it tells a line for each test."""
    needed = item.get_closest_marker("boxes")
    if needed is not None and needed.args[0] in lacking():
        pytest.skip(f"no {', no '.join(lacking())}: make test-cluster installs what is missing and runs these tests")
