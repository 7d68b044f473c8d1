"""Live words of one turn of a conversation: certain words, while the user still speaks.

A live transcription hears the turn beside the conversation. Its failure ends the live words of this turn alone; the
whole transcript comes at the end of the turn in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from edgeserve.errors import EdgeserveError
from edgeserve.live.agreement import covered
from edgeserve.live.session import Session
from edgeserve.live.window import MAX_PUSH_BYTES

log = logging.getLogger("edgeserve.realtime")

MOST_BYTES = 3 * MAX_PUSH_BYTES
"""Bytes of sound that wait for the engine. Beyond them the engine is too slow for live words."""


class Overhearing:
    """``session``: a fresh one, which ends with ``close``. ``tell`` gets the words that have become certain."""

    def __init__(self, session: Session, tell: Callable[[str], None]) -> None:
        self._session, self._tell = session, tell
        self._coming: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        session.on_news = self._hear
        self._task = asyncio.create_task(self._push())

    @property
    def size(self) -> int:
        """Bytes of sound kept."""
        return self._waiting + self._session.size

    def add(self, sound: bytes) -> None:
        """More sound of the turn: float32 at 16 kHz."""
        if self._session.closed:
            return
        self._waiting += len(sound)
        self._coming.put_nowait(sound)
        if self._waiting > MOST_BYTES:
            log.info("the live words of a turn end: %.0f s of its sound wait for the engine", self._waiting / 64_000)
            self.close()

    def close(self) -> None:
        """End the live words. Idempotent."""
        self._session.on_news = lambda: None
        self._session.close()
        self._task.cancel()
        self._coming, self._waiting = asyncio.Queue(), 0

    async def _push(self) -> None:
        try:
            while True:
                sound = await self._coming.get()
                for start in range(0, len(sound), MAX_PUSH_BYTES):
                    await self._session.push(sound[start : start + MAX_PUSH_BYTES])
                self._waiting -= len(sound)
        except EdgeserveError as error:
            self._fail(error)

    def _hear(self) -> None:
        try:
            step = self._session.step()
        except EdgeserveError as error:
            self._fail(error)
        else:
            if step.text:
                self._tell(step.text)

    def _fail(self, error: EdgeserveError) -> None:
        log.info("the live words of a turn end: %s", error.message)
        self.close()


def remainder(told: str, text: str) -> str:
    """The part of a whole transcript behind the live words that were sent, which may be written differently."""
    if text.startswith(told):
        return text[len(told) :]
    words = text.split()
    behind = words[covered([_key(one) for one in told.split()], [_key(one) for one in words]) :]
    return f" {' '.join(behind)}" if behind else ""


def _key(word: str) -> str:
    return "".join(one for one in word.casefold() if one.isalnum())
