"""The steps of an engine down its rungs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.gates import fake_spec

from edgeserve.engine import Rung
from edgeserve.hosts.ladder import Ladder


class Steps:
    """A hot engine that notes what it is asked for. ``parked``: its rung when parked."""

    def __init__(self, parked: Rung) -> None:
        self.rung, self.parked, self.spec = Rung.HOT, parked, fake_spec("llm")
        self.asked: list[str] = []

    def park(self) -> None:
        self.asked.append("park")
        self.rung = self.parked

    def close(self) -> None:
        self.asked.append("close")
        self.rung = Rung.COLD


@pytest.mark.parametrize(
    ("parked", "to", "asked"),
    [
        (Rung.WARM, Rung.WARM, ["park"]),
        (Rung.WARM, Rung.COLD, ["close"]),
        (Rung.COLD, Rung.WARM, ["park", "close"]),
        (Rung.WARM, Rung.HOT, []),
    ],
)
def test_an_engine_that_closes_when_parked_gives_up_its_process(parked: Rung, to: Rung, asked: list[str]) -> None:
    """The worker of a search for speakers kept 30 MB as long as the server ran: no step led below cold."""
    engine: Any = Steps(parked)
    Ladder(engine, None, lambda: None, time.monotonic).step_down(to)
    assert engine.asked == asked


def test_a_thread_that_waits_for_the_lock_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder may wait for memory, and is not decided on while an engine opens."""
    engine: Any = Steps(Rung.WARM)
    engine.rung = Rung.COLD
    ladder, opened = Ladder(engine, None, lambda: None, time.monotonic), list[Rung]()

    @contextlib.contextmanager
    def hold(seconds: float) -> Iterator[bool]:
        yield False
        engine.rung = Rung.WARM

    @contextlib.contextmanager
    def opening() -> Iterator[None]:
        opened.append(engine.rung)
        yield

    monkeypatch.setattr(ladder, "hold", hold)
    ladder.map(opening)
    assert not opened
    monkeypatch.undo()
    engine.rung, engine.open = Rung.COLD, lambda: setattr(engine, "rung", Rung.WARM)
    ladder.map(opening)
    assert opened == [Rung.COLD]
