"""Sessions with sound take turns, and pause behind their work."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from edgeserve.live import pace
from edgeserve.live.pace import LEAST_PAUSE, Pace, Turns


class Work:
    """A clock of work, and the pauses that were taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

        async def pausing(seconds: float) -> None:
            self.pauses.append(seconds)
            await asyncio.sleep(0)

        # In the one module: servers of other tests sleep on threads of theirs.
        monkeypatch.setattr(pace, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=pausing))

    def __call__(self) -> float:
        return self.now


def test_one_session_works_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)

    async def run() -> None:
        one = Pace(Turns(work))
        for _ in range(10):
            async with one.piece():
                work.now += 0.003

    asyncio.run(run())
    assert sum(work.pauses) == pytest.approx(0.03)


def test_small_pieces_add_up_to_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)

    async def run() -> None:
        one = Pace(Turns(work))
        for _ in range(20):
            async with one.piece():
                work.now += LEAST_PAUSE / 4

    asyncio.run(run())
    assert work.pauses.count(0.0) >= 14
    assert sum(work.pauses) == pytest.approx(5 * LEAST_PAUSE, rel=0.3)


def test_sessions_work_one_at_a_time_and_all_together_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    work, working = Work(monkeypatch), 0

    async def session(one: Pace) -> None:
        nonlocal working
        for _ in range(5):
            async with one.piece():
                working += 1
                assert working == 1
                work.now += 0.002
                working -= 1

    async def run() -> None:
        turns = Turns(work)
        await asyncio.gather(*(session(Pace(turns)) for _ in range(4)))
        assert turns.working == 0

    asyncio.run(run())
    # Each of 20 pieces lets its session pause up to 7 times as long, while all 4 have work.
    assert sum(work.pauses) >= 20 * 0.002 * 4


def test_a_failing_piece_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)

    async def run() -> None:
        turns = Turns(work)
        with pytest.raises(ValueError, match="no"):
            async with Pace(turns).piece():
                raise ValueError("no")
        async with Pace(turns).piece():
            assert turns.working == 1
        assert turns.working == 0

    asyncio.run(run())
