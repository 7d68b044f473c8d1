"""One server with a port for Wyoming for all tests of the dialect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.server import fake_pool
from support.wyoming import Wyoming, speaking_wyoming


@pytest.fixture(scope="package")
def wyoming() -> Iterator[Wyoming]:
    with speaking_wyoming(fake_pool(["llm", "asr", "tts"], languages=("en", "de"))) as running:
        yield running
