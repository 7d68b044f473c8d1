"""The project's own tools, loaded from ``tools/``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def prose() -> ModuleType:
    return load("prose")


@pytest.fixture(scope="session")
def docs_check() -> ModuleType:
    return load("docs_check")


@pytest.fixture(scope="session")
def site_nav() -> ModuleType:
    return load("site_nav")


@pytest.fixture(scope="session")
def house() -> ModuleType:
    return load("house")
