"""So many sessions at most; those that nobody uses end by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.sound import speech

from edgeserve.errors import Busy, NotFound
from edgeserve.live.ear import Options
from edgeserve.live.sessions import DEFAULT, Sessions


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(clock: Clock, limit: int = 2, idle_seconds: float = 60) -> Sessions:
    ear: Any = None
    return Sessions(ear, limit=limit, idle_seconds=idle_seconds, clock=clock)


def test_one_too_many_is_refused_with_numbers() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = made(clock)
        first = sessions.start(Options())
        clock.now += 20
        sessions.start(Options())
        with pytest.raises(Busy, match=r"2 live transcriptions are open.*60 s.*live_sessions") as refused:
            sessions.start(Options())
        assert refused.value.retry_after == 40
        sessions.end(first)
        sessions.end(first)
        assert sessions.start(Options()).name != first.name
        sessions.close()
        assert len(sessions) == 0

    asyncio.run(run())


def test_idle_sessions_make_room_and_their_names_are_gone() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = made(clock)
        old = sessions.start(Options())
        clock.now += 59
        with sessions.using(old.name) as used:
            clock.now += 500
            sessions.expire()
            assert not used.closed, "a session in use is not idle"
        clock.now += 60
        with pytest.raises(NotFound, match="not used for 60 s"), sessions.using(old.name):
            pass
        assert old.closed
        sessions.close()

    asyncio.run(run())


def test_the_default_session_begins_with_its_first_use() -> None:
    async def run() -> None:
        sessions = made(Clock(), limit=1)
        with sessions.using(DEFAULT) as one:
            await one.push(speech(0.3))
        with sessions.using(DEFAULT) as two:
            assert two is one
        with pytest.raises(Busy):
            sessions.start(Options())
        sessions.close()

    asyncio.run(run())


def test_sound_is_freed_though_nobody_asks() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = made(clock, idle_seconds=0.01)
        ended = asyncio.Event()
        sessions.start(Options()).on_news = ended.set
        clock.now += 1
        async with asyncio.timeout(5):
            await ended.wait()
        assert len(sessions) == 0

    asyncio.run(run())
