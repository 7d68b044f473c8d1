"""One Chromium for each module of tests of the page, with a server on fake engines, or one of the starter models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Tab, chromium, lacking, opened
from support.server import Running, fake_pool, serving

from edgeserve import assembly, config
from edgeserve.models.store import Store


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """pytest folds what is skipped here into one line; of ``skipif`` and of a fixture it tells a line for each test."""
    if item.get_closest_marker("browser") and (reason := lacking()):
        pytest.skip(f"the page is not tried in a browser: {reason}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def starters(store: Store) -> Iterator[Running]:
    settings = config.load({})
    for job in ("llm", "asr", "tts"):
        store.pull(settings.models[job].model)
    with serving(assembly.build_pool(settings, store)) as running:
        yield running


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool()) as running:
        yield running


@pytest.fixture
def tab(browser: Any, running: Running) -> Iterator[Tab]:
    with opened(browser, running.url) as tab:
        yield tab
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])
