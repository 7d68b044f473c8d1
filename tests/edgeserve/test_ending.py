"""The last resort: it leaves only where an engine still loads when the time is over."""

from __future__ import annotations

import threading

import pytest

from edgeserve import ending
from edgeserve.ending import LastResort


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "LOOK_SECONDS", 0.001)


def test_a_load_that_does_not_end_is_left(caplog: pytest.LogCaptureFixture) -> None:
    left, looks = threading.Event(), list[int]()

    def loading() -> list[str]:
        looks.append(1)
        return ["llm", "asr"] if len(looks) > 3 else []

    resort = LastResort(loading, left.set)
    resort.arm(0.0)
    assert left.wait(20)
    assert len(looks) == 4
    assert "the server ends now, while llm and asr still loads" in caplog.text


def test_nothing_happens_before_the_time_nor_after_an_end() -> None:
    left, looked = threading.Event(), threading.Event()
    resort = LastResort(lambda: looked.set() or ["llm"], left.set)  # type: ignore[func-returns-value]
    resort.arm(1000.0)
    resort.disarm()
    resort.arm(1000.0)
    resort.disarm()
    assert not looked.is_set()
    assert not left.is_set()


def test_the_shorter_wait_counts() -> None:
    left = threading.Event()
    resort = LastResort(lambda: ["llm"], left.set)
    resort.arm(1000.0)
    resort.arm(0.0)
    assert left.wait(20)
