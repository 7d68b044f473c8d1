"""The steps of an engine down its rungs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from edgeserve.engine import Rung
from edgeserve.hosts.ladder import Ladder


class Steps:
    """A hot engine that notes what it is asked for. ``parked``: its rung when parked."""

    def __init__(self, parked: Rung) -> None:
        self.rung, self.parked = Rung.HOT, parked
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
