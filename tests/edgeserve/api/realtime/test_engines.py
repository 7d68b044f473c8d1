"""Answers made by fake engines: the model repeats the user, and the voice says 0.1 s a word."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from support.server import fake_pool

from edgeserve.api.limits import Limits
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.engines import Engines
from edgeserve.api.realtime.items import Item
from edgeserve.api.realtime.response import Response
from edgeserve.live.ear import Ear
from edgeserve.live.sessions import Sessions
from edgeserve.messages import Message
from edgeserve.talk.first_sounds import FirstSounds

FOUR_SECONDS = 3.9
"""Seconds, less the rounding."""


class NoPictures:
    """The messages of items without pictures."""

    async def messages(self, items: list[Item]) -> list[Message]:
        return [message for one in items if (message := one.message()) is not None]


class Answer:
    """An answer that is made. ``clauses``: those whose sound was asked for."""

    def __init__(self, engines: Engines, text: str) -> None:
        self.clauses: list[str] = []
        self.is_ahead = asyncio.Event()
        numbers = itertools.count(1)
        self.response = Response("resp", Config.new(Limits()), None, self._tell, lambda kind: f"{kind}_{next(numbers)}")
        item = Item("item", role="user", content=[{"type": "input_text", "text": text}])
        self.task = asyncio.create_task(engines.answer(self.response, [item], self._room))

    def _tell(self, kind: str, **fields: Any) -> None:
        if kind == "response.output_audio_transcript.delta":
            self.clauses.append(fields["delta"])

    async def _room(self) -> None:
        if self.response.seconds > FOUR_SECONDS:
            self.is_ahead.set()
        await asyncio.sleep(0)


def test_an_answer_ahead_of_its_listener_waits_for_the_first_sound_of_another() -> None:
    """The clock stands: the listener of the long answer has heard nothing of its four seconds."""

    async def scene() -> None:
        pool: Any = fake_pool(["llm", "tts"])
        pictures: Any = NoPictures()
        firsts = FirstSounds()
        engines = Engines(pool, pictures, firsts, Sessions(Ear(pool)), clock=lambda: 0.0)
        with firsts.waiting():
            long = Answer(engines, f"{'word ' * 39}word. Then a second sentence.")
            await long.is_ahead.wait()
            short = Answer(engines, "A short one here.")
            await short.task
            assert len(short.clauses) == 1
            assert len(long.clauses) == 1
        await long.task
        assert len(long.clauses) == 2
        await pool.stop()

    asyncio.run(scene())
