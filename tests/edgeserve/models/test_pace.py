"""The pace of a download, on a clock of the test."""

from __future__ import annotations

from edgeserve.models.pace import LEAST_BYTES, WINDOW_SECONDS, Pace


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_slow_line_is_no_stall() -> None:
    clock = Clock()
    pace, done = Pace(clock), 0
    for _ in range(40):
        clock.now += WINDOW_SECONDS / 4
        done += LEAST_BYTES // 3
        pace.note("m", done)
        assert not pace.stalled


def test_a_trickle_is_a_stall() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.note("m", 0)
    for done in range(19):
        clock.now += WINDOW_SECONDS / 20
        pace.note("m", done)
        assert not pace.stalled
    clock.now += WINDOW_SECONDS / 20
    assert pace.stalled
    assert pace.moved == 18


def test_another_part_and_a_new_beginning_have_a_time_of_their_own() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.note("m", 1000)
    for part, done in (("companion", 0), ("companion", 5), ("companion", 0)):
        clock.now += WINDOW_SECONDS - 1
        pace.note(part, done)
        if done:
            continue
        assert (pace.stalled, pace.moved) == (False, 0)
    clock.now += WINDOW_SECONDS
    assert pace.stalled
