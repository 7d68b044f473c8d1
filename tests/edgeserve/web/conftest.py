"""One Chromium for each module of tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser
