"""One server on fake engines for all tests of the routes."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from support.server import Running, fake_pool, serving

from edgeserve.jobs import JOBS


@pytest.fixture(scope="package")
def running() -> Iterator[Running]:
    with serving(fake_pool((*JOBS, "rerank"), abilities="insert")) as running:
        yield running


@pytest.fixture
def client(running: Running) -> httpx.Client:
    return running.client
