"""Text to speech: a whole text, or a text that is still being written."""

from __future__ import annotations

import asyncio
import contextlib

from edgeserve.api.limits import Limits
from edgeserve.api.wyoming.events import Event
from edgeserve.api.wyoming.services import Send
from edgeserve.errors import TooLarge
from edgeserve.messages import AudioEvent, SpeakRequest
from edgeserve.residency.pool import Pool
from edgeserve.talk.clauses import Clauses

CHUNK_BYTES = 2048
"""Bytes of one audio-chunk: 1,024 samples."""
SILENT_RATE = 22_050
"""Rate in Hz of a speech without any sound."""
STEP_CHARS = 512
"""Characters of a part that are cut between two turns of other tasks: a millisecond of work."""


class Speaking:
    """One stretch of speech, in one form from its ``audio-start`` to its ``audio-stop``. ``model``: id."""

    def __init__(self, pool: Pool, send: Send, model: str, voice: str | None) -> None:
        self._pool, self._send = pool, send
        self._model, self._voice = model, voice
        self._form: dict[str, int] = {}
        pool.prefetches.expect_model(model)

    async def say(self, text: str) -> None:
        """Speak a text. Raises EdgeserveError."""
        async with await self._pool.lease(self._model) as lease:
            async for event in lease.run(SpeakRequest(text, self._voice)):
                if isinstance(event, AudioEvent):
                    await self._sound(event)

    async def stop(self) -> None:
        """End the stretch. A stretch without sound begins and ends: clients wait for both."""
        await self._start(SILENT_RATE)
        await self._send(Event("audio-stop"))

    async def _start(self, rate: int) -> None:
        if not self._form:
            self._form = {"rate": rate, "width": 2, "channels": 1}
            await self._send(Event("audio-start", self._form))

    async def _sound(self, event: AudioEvent) -> None:
        await self._start(event.sample_rate)
        for start in range(0, len(event.pcm), CHUNK_BYTES):
            await self._send(Event("audio-chunk", self._form, event.pcm[start : start + CHUNK_BYTES]))


class Dictation:
    """Speaks a text that comes in parts: each sentence when it is whole, the first one by its clauses.

    A task speaks, so that parts are read meanwhile.
    """

    def __init__(self, speaking: Speaking, limits: Limits) -> None:
        self._speaking = speaking
        self._most = limits.max_text_chars
        self._clauses = Clauses()
        self._pieces: asyncio.Queue[str] = asyncio.Queue()
        self._chars = 0
        self._task: asyncio.Task[None] | None = None
        self._whole = False

    async def add(self, text: str) -> None:
        """Take the next part. Raises TooLarge, and the error of speaking."""
        self._raise_failure()
        self._chars += len(text)
        if self._chars > self._most:
            raise TooLarge(f"the text has more than {self._most} characters, the limit of max_text_chars", param="text")
        for start in range(0, len(text), STEP_CHARS):
            self._queue(self._clauses.feed(text[start : start + STEP_CHARS]))
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Speak the rest, and wait for its end. Raises the error of speaking."""
        self._queue(self._clauses.end())
        if self._task is not None:
            await self._task
        await self._speaking.stop()

    async def close(self) -> None:
        """Stop speaking. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    def _queue(self, pieces: list[str]) -> None:
        for piece in filter(str.strip, pieces):
            self._pieces.put_nowait(piece.strip())
        if not self._pieces.empty() and (self._task is None or self._task.done()):
            self._raise_failure()
            self._task = asyncio.create_task(self._speak())

    async def _speak(self) -> None:
        while not self._pieces.empty():
            await self._speaking.say(self._pieces.get_nowait())

    def _raise_failure(self) -> None:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            task, self._task = self._task, None
            task.result()
