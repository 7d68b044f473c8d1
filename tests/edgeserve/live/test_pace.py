"""Sessions with sound take loop_time, and pause behind their work."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve import clients
from edgeserve.clients import Client
from edgeserve.live import pace
from edgeserve.live.pace import LEAST_PAUSE, LoopTime, Pace


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
        one = Pace(LoopTime(work))
        for _ in range(10):
            async with one.piece():
                work.now += 0.003

    asyncio.run(run())
    assert sum(work.pauses) == pytest.approx(0.03)


def test_small_pieces_add_up_to_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)

    async def run() -> None:
        one = Pace(LoopTime(work))
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
        loop_time = LoopTime(work)
        await asyncio.gather(*(session(Pace(loop_time)) for _ in range(4)))
        assert not loop_time.working

    asyncio.run(run())
    # Each of 20 pieces lets its session pause up to 7 times as long, while all 4 have work.
    assert sum(work.pauses) >= 20 * 0.002 * 4


def test_a_failing_piece_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)

    async def run() -> None:
        loop_time = LoopTime(work)
        with pytest.raises(ValueError, match="no"):
            async with Pace(loop_time).piece():
                raise ValueError("no")
        async with Pace(loop_time).piece():
            assert loop_time.working.total() == 1
        assert not loop_time.working

    asyncio.run(run())


def test_work_that_fails_takes_no_more_of_the_time_than_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a conversation that are refused take as long to read as others. They took all of the loop's time."""
    work = Work(monkeypatch)

    def fail() -> None:
        work.now += 0.003
        raise ValueError("no")

    async def run() -> None:
        one = Pace(LoopTime(work))
        for _ in range(10):
            with pytest.raises(ValueError, match="no"):
                async with one.piece():
                    fail()

    asyncio.run(run())
    assert sum(work.pauses) == pytest.approx(0.003 * 9)  # the last pause is due before the next piece


NEW, OLD = Client("phone", "192.0.2.1"), Client("laptop", "192.0.2.2")
HOUSE = [Client("laptop", f"192.0.2.{number}") for number in range(3, 8)]
HOUSE_V6 = [Client("", f"2001:db8::{number}") for number in range(1, 6)]


@pytest.mark.parametrize("others", [[OLD] * 1, [OLD] * 3, [OLD] * 8, [OLD] * 40, HOUSE, [*HOUSE, *HOUSE], HOUSE_V6])
def test_a_client_takes_no_more_of_the_time_with_more_sessions(
    monkeypatch: pytest.MonkeyPatch, others: list[Client]
) -> None:
    """Each session had a part: one client with eight of them left a ninth of the time to another."""
    work = Work(monkeypatch)
    pauses: dict[str, list[float]] = {"mine": [], "theirs": []}

    async def pausing(seconds: float) -> None:
        await asyncio.sleep(0)
        if seconds:
            pauses["mine" if clients.current.get() == NEW else "theirs"].append(seconds)

    monkeypatch.setattr(pace, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=pausing))

    async def session(client: Client, loop_time: LoopTime, over: asyncio.Event) -> None:
        clients.current.set(client)
        one = Pace(loop_time)
        async with one.piece():
            work.now += 0.004
            await over.wait()  # until all have come

    async def run() -> None:
        loop_time, over = LoopTime(work), asyncio.Event()
        found = [asyncio.create_task(session(one, loop_time, over)) for one in (*others, NEW)]
        await asyncio.sleep(0)
        assert loop_time.working.total() == len(found)
        over.set()
        await asyncio.gather(*found)

    asyncio.run(run())
    assert pauses["mine"] == pytest.approx([0.004 * 3])  # a quarter of the time, as for all others together
    assert min(pauses["theirs"]) >= 0.004 * 3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=20))
def test_all_sharers_together_take_the_whole(found: list[tuple[str, int]]) -> None:
    loop_time = LoopTime()
    for key, network in found:
        loop_time.working[Client(key, f"192.0.2.{network}").groups] += 1
    shares = {groups: count / loop_time.sharers(groups) for groups, count in loop_time.working.items()}
    assert sum(shares.values()) == pytest.approx(1.0)
    for key in {key for (key,), _ in shares}:
        own = sum(share for ((other,), _), share in shares.items() if other == key)
        assert own == pytest.approx(1 / len({key for (key,), _ in shares}))
