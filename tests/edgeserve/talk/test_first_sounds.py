"""The order of answers: those without sound go first."""

from __future__ import annotations

import asyncio

from edgeserve.talk.first_sounds import AHEAD_SECONDS, FirstSounds

LONG = 3600.0
"""Seconds of sound that no test waits for."""


def test_nobody_waits_for_nobody() -> None:
    asyncio.run(FirstSounds().give_way(LONG))


def test_an_answer_ahead_of_its_listener_waits_for_the_first_sounds_of_all() -> None:
    async def scene() -> None:
        firsts = FirstSounds()
        with firsts.waiting() as one, firsts.waiting() as two:
            ahead = asyncio.create_task(firsts.give_way(LONG))
            await asyncio.sleep(0)
            one.came()
            one.came()
            await asyncio.sleep(0)
            assert not ahead.done()
            two.came()
            await ahead

    asyncio.run(scene())


def test_an_answer_that_ends_without_sound_keeps_nobody_waiting() -> None:
    async def scene() -> None:
        firsts = FirstSounds()
        with firsts.waiting():
            ahead = asyncio.create_task(firsts.give_way(LONG))
            await asyncio.sleep(0)
            assert not ahead.done()
        await ahead

    asyncio.run(scene())


def test_a_listener_never_runs_out_of_sound() -> None:
    async def scene() -> None:
        firsts = FirstSounds()
        with firsts.waiting():
            await firsts.give_way(AHEAD_SECONDS)
            await firsts.give_way(-1.0)

    asyncio.run(scene())
