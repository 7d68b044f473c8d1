"""The watch over the machines of a split: when it looks, and when it ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from support.server import until

from edgeserve.hosts.node_watch import NodeWatch

NODE = "10.0.0.2:50052"


class Pulses:
    """Reports the machine as lost at the look ``lost_at``, counted from those in which an answer is owed."""

    def __init__(self, lost_at: int = 0) -> None:
        self.owed: list[bool] = []
        self.lost_at = lost_at
        self.closed = threading.Event()

    def look(self, owed: bool) -> tuple[str, ...]:
        self.owed.append(owed)
        return (NODE,) if self.lost_at and sum(self.owed) >= self.lost_at else ()

    def close(self) -> None:
        self.closed.set()


def test_a_lost_machine_is_told_once_and_the_watch_ends() -> None:
    told: list[Sequence[str]] = []
    pulses = Pulses(lost_at=3)
    watch = NodeWatch(pulses, lambda: True, told.append, every=0.001)  # type: ignore[arg-type]
    assert pulses.closed.wait(10)
    watch.stop()
    assert told == [(NODE,)]
    assert pulses.owed == [True] * 3


def test_it_looks_with_and_without_answers_until_it_is_stopped() -> None:
    owes = threading.Event()
    pulses = Pulses()
    watch = NodeWatch(pulses, owes.is_set, lambda lost: None, every=0.001)  # type: ignore[arg-type]
    until(lambda: pulses.owed.count(False) > 2)
    owes.set()
    until(lambda: pulses.owed.count(True) > 2)
    watch.stop()
    watch.stop()
    assert pulses.closed.is_set()
