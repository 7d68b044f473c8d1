"""A watch blames a worker that is silent or makes no progress, and never one that stood still with its box."""

from __future__ import annotations

import pytest
from support.gates import Clock

from edgeserve.hosts.watch import HANG, LOOKS, STUCK, Watch
from edgeserve.processes.frames import Frame, Kind


class Case:
    def __init__(self) -> None:
        self.clock = Clock()
        self.watch = Watch(self.clock)
        self.watch.owe(1)

    def hear(self, rounds: int | None) -> None:
        self.watch.heard(Frame(Kind.PULSE, 0, rounds, memoryview(b"")))

    def looks(self, count: int) -> str | None:
        """The verdict of so many looks, a second apart."""
        why = None
        for _ in range(count):
            self.clock.now += 1
            why = self.watch.look()
        return why


@pytest.fixture
def case() -> Case:
    return Case()


def test_a_silent_worker_is_blamed(case: Case) -> None:
    assert case.looks(int(HANG)) is None
    assert case.looks(LOOKS) == "it has given no sign of life for 30 s"


def test_a_worker_that_pulses_without_progress_is_blamed(case: Case) -> None:
    case.hear(1)
    for _ in range(int(STUCK)):
        case.hear(1)
        assert case.looks(1) is None
    case.hear(1)
    assert case.looks(LOOKS) == "it has made no progress for 600 s"


def test_a_worker_that_waits_for_its_readers_may_wait_for_ever(case: Case) -> None:
    for _ in range(2 * int(STUCK)):
        case.hear(None)
        assert case.looks(1) is None


def test_a_box_that_stood_still_has_nobody_to_blame(case: Case) -> None:
    case.hear(1)
    case.clock.now += 10 * STUCK  # a paused container: neither side has run
    assert case.looks(LOOKS - 1) is None
    case.hear(1)  # still in the same long step
    for _ in range(int(HANG)):
        case.hear(1)
        assert case.looks(1) is None


def test_silence_counts_from_the_first_question(case: Case) -> None:
    case.watch.settle(1)
    case.clock.now += 10 * STUCK
    case.watch.owe(2)
    assert case.looks(LOOKS) is None
