"""A seed gives the same schedule again, and the schedule has every kind that the machine permits."""

from __future__ import annotations

import itertools

from benchmarks.chaos import events
from benchmarks.chaos.events import HANG, HANG_EVERY, KINDS, OF_ALL, schedule
from support.cases import each

JOBS = ("llm", "asr")


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert schedule(7, 100, JOBS, KINDS, 2.0) == schedule(7, 100, JOBS, KINDS, 2.0)
    assert schedule(7, 100, JOBS, KINDS, 2.0) != schedule(8, 100, JOBS, KINDS, 2.0)


@each("seed", range(5))
def test_every_kind_comes_in_its_time(seed: int) -> None:
    made = schedule(seed, 60, JOBS, KINDS, 2.0)
    assert {one.kind for one in made} == set(KINDS)
    assert all(0 < one.at < 60 for one in made)
    assert [one.at for one in made] == sorted(one.at for one in made)
    assert all((one.job == "") == (one.kind in OF_ALL) for one in made)
    for one in made:
        shortest, longest = events.LASTS.get(one.kind, (0.0, 0.0))
        assert one.kind == HANG or shortest <= one.seconds <= longest


def test_hangs_come_first_and_seldom() -> None:
    made = schedule(1, 600, JOBS, KINDS, 4.0)
    hangs = [one.at for one in made if one.kind == HANG]
    assert made[0].kind == HANG
    assert all(later - earlier >= HANG_EVERY for earlier, later in itertools.pairwise(hangs))
    assert len(hangs) == 7


def test_a_kind_that_the_machine_does_not_permit_is_left_out() -> None:
    kinds = [kind for kind in KINDS if kind not in (HANG, events.DISK)]
    assert {one.kind for one in schedule(3, 200, JOBS, kinds, 1.0)} == set(kinds)
