"""Pushes of a session: they wait for room only, leave the event loop to others, and are not mixed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.ears import FakeEar, quiet, session
from support.sound import SECOND, speech
from support.turns import most_in_a_turn

from edgeserve.errors import Busy, NotFound
from edgeserve.live import pace
from edgeserve.live.session import PIECE_BYTES
from edgeserve.live.window import Window, check_samples


def test_pushes_that_come_meanwhile_only_append_and_are_heard_together() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        ear.free.clear()
        for _ in range(8):
            async with asyncio.timeout(60):
                await one.push(speech(1))
        ear.free.set()
        await quiet(one)
        assert len(ear.requests) == 1
        assert one.step().partial.count("w") == 16

    asyncio.run(run())


def test_a_push_waits_for_room_and_says_so_when_the_engine_stays_busy() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        ear.free.clear()
        for _ in range(3):
            await one.push(speech(10))
        with pytest.raises(Busy, match="30 s of sound wait"):
            await one.push(speech(1), patience=0.01)
        ear.fail = Busy("no place", retry_after=1)
        ear.free.set()
        with pytest.raises(Busy, match="no place"):
            await one.push(speech(1))
        await one.push(speech(1))
        assert one.duration == pytest.approx(31)

    asyncio.run(run())


def test_a_busy_engine_is_asked_again_as_long_as_there_is_room() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        ear.fail = Busy("no place")
        await one.push(speech(1))
        await quiet(one)
        assert one.step().partial == ""
        await one.push(speech(0.1))
        await quiet(one)
        assert one.step().partial.startswith("w0.30")

    asyncio.run(run())


def test_a_large_push_leaves_the_event_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_on: list[int] = []

    def noted(work: Callable[..., None]) -> Callable[..., None]:
        def note(*given: Any) -> None:
            worked_on.append(len(given[-1]))
            work(*given)

        return note

    monkeypatch.setattr("edgeserve.live.session.check_samples", noted(check_samples))
    monkeypatch.setattr(Window, "append", noted(Window.append))

    async def run() -> None:
        one = session(FakeEar())
        assert await most_in_a_turn(one.push(speech(10)), lambda: sum(worked_on)) <= PIECE_BYTES
        assert one.duration == 10

    asyncio.run(run())
    assert sum(worked_on) == 2 * 10 * SECOND


@pytest.mark.parametrize("sessions", [1, 3])
def test_many_pushes_take_the_event_loop_no_longer_than_one(monkeypatch: pytest.MonkeyPatch, sessions: int) -> None:
    """Forty of one client made everybody's tokens wait four times as long."""
    worked_on = [0]

    def noted(work: Callable[..., None]) -> Callable[..., None]:
        def note(*given: Any) -> None:
            worked_on[0] += len(given[-1])
            work(*given)

        return note

    monkeypatch.setattr("edgeserve.live.session.check_samples", noted(check_samples))
    monkeypatch.setattr(Window, "append", noted(Window.append))

    async def run() -> None:
        loop_time = pace.LoopTime()
        made = [session(FakeEar(), loop_time=loop_time) for _ in range(sessions)]
        pushes = asyncio.gather(*(one.push(bytes(SECOND // 2)) for one in made for _ in range(20)))

        async def all_pushed() -> None:
            await pushes

        assert await most_in_a_turn(all_pushed(), lambda: worked_on[0]) <= PIECE_BYTES
        assert sum(one.duration for one in made) == sessions * 10

    asyncio.run(run())


def test_a_session_pauses_behind_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may send silence as fast as it likes: half of the event loop's time stays with others."""
    now, slept = [0.0], [0.0]

    async def sleep(seconds: float) -> None:
        slept[0] += seconds
        await asyncio.sleep(0)

    def work(data: bytes) -> None:
        now[0] += 0.001

    monkeypatch.setattr(pace, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=sleep))
    monkeypatch.setattr("edgeserve.live.session.check_samples", work)
    asyncio.run(session(FakeEar(), loop_time=pace.LoopTime(lambda: now[0])).push(bytes(10 * SECOND)))
    assert now[0] == pytest.approx(0.1)
    assert slept[0] == pytest.approx(now[0], abs=pace.LEAST_PAUSE)


def test_pushes_at_once_are_not_mixed() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        await asyncio.gather(one.push(speech(3, 0.2)), one.push(speech(3, 0.4)), one.push(speech(3, 0.6)))
        await one.flush()
        sound = memoryview(b"".join(ear.requests[-1].audio.pieces())).cast("f").tolist()
        loudest = [round(max(sound[at : at + 8000]), 1) for at in range(0, 9 * 16000, 8000)]
        assert loudest == [0.2] * 6 + [0.4] * 6 + [0.6] * 6

    asyncio.run(run())


def test_a_session_that_ends_while_sound_is_taken_in_says_so() -> None:
    async def run() -> None:
        one = session(FakeEar())
        pushing = asyncio.create_task(one.push(speech(10)))
        for _ in range(25):
            await asyncio.sleep(0)
        one.close()
        with pytest.raises(NotFound):
            await pushing

    asyncio.run(run())
