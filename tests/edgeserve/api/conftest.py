"""One server on fake engines for all tests of the routes."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from openai import OpenAI
from support.server import Running, fake_pool, serving

from edgeserve.jobs import JOBS


@pytest.fixture(scope="package")
def running() -> Iterator[Running]:
    with serving(fake_pool((*JOBS, "rerank"), abilities="insert")) as running:
        yield running


@pytest.fixture
def client(running: Running) -> httpx.Client:
    return running.client


@pytest.fixture(scope="module")
def ai(running: Running) -> Iterator[OpenAI]:
    """OpenAI's own client."""
    with OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client:
        yield client
