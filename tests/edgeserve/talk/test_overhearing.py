"""Live words of a turn on an ear that knows the words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.cases import each
from support.ears import FakeEar
from support.sound import speech

from edgeserve.errors import EngineFailure
from edgeserve.live.ear import Options
from edgeserve.live.sessions import Sessions
from edgeserve.talk import overhearing
from edgeserve.talk.overhearing import Overhearing, remainder


class Turn:
    def __init__(self, ear: FakeEar) -> None:
        self.words, self.came = "", asyncio.Event()
        hears: Any = ear
        self.sessions = Sessions(hears)
        self.session = self.sessions.overhear(Options())
        self.live = Overhearing(self.session, self._tell)

    def _tell(self, text: str) -> None:
        self.words += text
        self.came.set()


async def certain(turn: Turn) -> None:
    """Speak until words are certain."""
    async with asyncio.timeout(10):
        while not turn.came.is_set():
            turn.live.add(speech(0.5))
            await asyncio.sleep(0.001)


def test_words_come_while_the_turn_goes_on() -> None:
    async def scene() -> None:
        turn = Turn(FakeEar())
        await certain(turn)
        assert turn.words.strip()
        assert turn.live.size > 0
        assert len(turn.sessions) == 0
        turn.live.close()
        turn.live.add(speech(1))
        assert turn.live.size == 0

    asyncio.run(scene())


def test_an_engine_that_fails_ends_the_live_words_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def scene() -> None:
        ear = FakeEar()
        ear.fail = EngineFailure("the engine is broken")
        turn = Turn(ear)
        async with asyncio.timeout(10):
            while not turn.session.closed:
                turn.live.add(speech(0.5))
                await asyncio.sleep(0.001)
        assert turn.words == ""

    asyncio.run(scene())
    assert caplog.text.count("the live words of a turn end: the engine is broken") == 1


def test_an_engine_that_is_too_slow_ends_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhearing, "MOST_BYTES", 64_000)

    async def scene() -> None:
        turn = Turn(FakeEar())
        turn.live.add(speech(1))
        turn.live.add(speech(1))
        assert turn.session.closed
        assert turn.live.size == 0

    asyncio.run(scene())


def test_the_end_of_the_server_ends_the_session() -> None:
    async def scene() -> None:
        turn = Turn(FakeEar())
        turn.sessions.close()
        assert turn.session.closed

    asyncio.run(scene())


@each(
    ("told", "text", "left"),
    [
        ("", "One two.", "One two."),
        ("One", "One two.", " two."),
        ("One, two", "One two three.", " three."),
        ("One two.", "One two.", ""),
        ("One two", "One two.", "."),
        ("Wrong words here", "", ""),
    ],
)
def test_the_rest_follows_what_was_told(told: str, text: str, left: str) -> None:
    assert remainder(told, text) == left
