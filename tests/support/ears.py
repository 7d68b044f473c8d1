"""Ears that know the words, and sessions on them."""

from __future__ import annotations

import asyncio

from support.sound import SECOND

from edgeserve.live.ear import Options, Question
from edgeserve.live.pace import LoopTime
from edgeserve.live.session import Session
from edgeserve.live.turns import Urgent
from edgeserve.messages import TranscribeRequest, Word


class FakeEar:
    """An ear that hears one word in each half second of sound. It raises ``fail`` once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.requests: list[TranscribeRequest] = []
        self.urgent: list[bool] = []
        self.fail: Exception | None = None
        self.free = asyncio.Event()
        self.free.set()

    def cost(self, options: Options) -> float:
        return self.seconds

    async def hear(self, question: Question, options: Options, urgent: Urgent) -> list[Word] | None:
        await self.free.wait()
        if (request := question()) is None:
            return None
        self.urgent.append(urgent())
        if self.fail:
            error, self.fail = self.fail, None
            raise error
        self.requests.append(request)
        sound = b"".join(request.audio.pieces())
        half = SECOND // 2
        return [
            Word(at / SECOND, (at + half) / SECOND, f" {name(sound[at : at + half])}")
            for at in range(0, len(sound), half)
            if any(sound[at : at + half])
        ]


class SlowEar(FakeEar):
    """An ear that sets ``asked``, then waits for ``answer``."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def hear(self, question: Question, options: Options, urgent: Urgent) -> list[Word] | None:
        words = await super().hear(question, options, urgent)
        self.asked.set()
        await self.answer.wait()
        return words


def name(sound: bytes) -> str:
    return f"w{max(memoryview(sound[: len(sound) // 4 * 4]).cast('f')):.2f}"


def session(
    ear: FakeEar, options: Options | None = None, max_seconds: float = 7200, loop_time: LoopTime | None = None
) -> Session:
    return Session("one", ear, options or Options(), max_seconds, loop_time=loop_time)  # type: ignore[arg-type]


async def quiet(one: Session) -> None:
    """Wait until the session listens no more."""
    while one._task is not None and not one._task.done():
        await asyncio.wait([one._task])
