"""The lock of a model: taken once, waited for, given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.errors import Cancelled, StoreError
from edgeserve.models import lock
from edgeserve.models.lock import busy, locked


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.001)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path, "one"):
        assert busy(tmp_path, "one")
        with locked(tmp_path, "two"):
            pass
        with pytest.raises(StoreError, match="another pull or removal of one is under way"), locked(tmp_path, "one"):
            pass
    assert not busy(tmp_path, "one")


def test_a_wait_ends_with_the_holder(tmp_path: Path) -> None:
    holder = locked(tmp_path, "one")
    holder.__enter__()
    waits = 0

    def on_wait() -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            holder.__exit__(None, None, None)

    with locked(tmp_path, "one", on_wait):
        assert waits == 3


def test_a_wait_can_be_given_up(tmp_path: Path) -> None:
    def on_wait() -> None:
        raise Cancelled("given up")

    with locked(tmp_path, "one"), pytest.raises(Cancelled), locked(tmp_path, "one", on_wait):
        pass
    with locked(tmp_path, "one"):
        pass
