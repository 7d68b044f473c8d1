"""Servers for clients of plain sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.raw import SHORT
from support.server import Running, fake_pool, serving


@pytest.fixture(scope="package")
def short() -> Iterator[Running]:
    """A server of little patience."""
    with serving(fake_pool(["llm", "tts"]), patience=SHORT, body_timeout=0.4, max_body_mb=1) as running:
        yield running


@pytest.fixture(scope="package")
def usual() -> Iterator[Running]:
    with serving(fake_pool(["llm"])) as running:
        yield running
