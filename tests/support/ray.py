"""Marks of the tests on Ray."""

from __future__ import annotations

import pytest

ON_RAY = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.boxes("Ray"),
    # Ray leaves sockets and files to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
