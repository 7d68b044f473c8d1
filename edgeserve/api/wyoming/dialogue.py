"""The events of one connection, in their order: what each asks for, and the answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from edgeserve.api import models
from edgeserve.api.fields import Fields
from edgeserve.api.schema import Record
from edgeserve.api.wyoming import hearing, voices
from edgeserve.api.wyoming.events import Event, Received
from edgeserve.api.wyoming.fields import (
    Asked,
    Ping,
    SelectProgram,
    SoundForm,
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    Transcribe,
    Voice,
)
from edgeserve.api.wyoming.hearing import Hearing
from edgeserve.api.wyoming.info import PROGRAM, info
from edgeserve.api.wyoming.services import Send, Services
from edgeserve.api.wyoming.speaking import Dictation, Speaking
from edgeserve.api.wyoming.talking import talk
from edgeserve.clients import Client
from edgeserve.errors import Cancelled, EdgeserveError
from edgeserve.jobs import ALL_JOBS, CHAT, Job
from edgeserve.live.ear import Options

log = logging.getLogger("edgeserve.wyoming")

MESSAGE_CHARS = 4000
"""Characters of an error, which may quote what came."""
R = TypeVar("R", bound=Record)


def failure(error: EdgeserveError) -> Event:
    return Event("error", {"text": error.message[:MESSAGE_CHARS], "code": error.code})


class Dialogue:
    """One connection. ``take`` answers one event after the other; ``close`` ends what is open."""

    def __init__(self, services: Services, client: Client, send: Send) -> None:
        self._services, self._client, self._send = services, client, send
        self._program = ""
        self._wanted: Options | None = None
        self._hearing: Hearing | None = None
        self._dictation: Dictation | None = None
        self._deaf = self._mute = False
        """After an error, until the utterance or the text ends: its other events are dropped."""
        self._takes: Mapping[str, Callable[[Received], Awaitable[None]]] = {
            "describe": self._describe,
            "ping": self._ping,
            "select-program": self._select,
            "transcribe": self._transcribe,
            "audio-start": self._audio_start,
            "audio-chunk": self._audio_chunk,
            "audio-stop": self._audio_stop,
            "synthesize": self._synthesize,
            "synthesize-start": self._synthesize_start,
            "synthesize-chunk": self._synthesize_chunk,
            "synthesize-stop": self._synthesize_stop,
            "transcript": self._transcript,
        }

    @property
    def open(self) -> bool:
        """Whether the client is in the middle of an utterance or a text."""
        return self._hearing is not None or self._dictation is not None

    async def take(self, event: Received) -> None:
        """Answer an event. Unknown ones are ignored: newer clients send more. Raises Cancelled."""
        handle = self._takes.get(event.type)
        if handle is None:
            log.debug("an event of the unknown type %r is ignored", event.type)
            return
        try:
            await handle(event)
        except Cancelled:
            raise
        except EdgeserveError as error:
            await self._send(failure(error))

    async def close(self) -> None:
        """Idempotent."""
        self._forget_sound()
        if self._dictation is not None:
            dictation, self._dictation = self._dictation, None
            await dictation.close()

    async def _read(self, event: Received, record: type[R]) -> R:
        return record(await event.fields(), self._services.limits)

    def _model(self, name: str, *jobs: Job) -> str:
        """The name of the model that answers: the one that the event names, else that of the selected program."""
        if name and name != PROGRAM:
            return name
        selected = self._program and models.found_by_name(self._services.pool, self._program, jobs)
        return self._program if selected else ""

    # All programs

    async def _describe(self, event: Received) -> None:
        await self._send(Event("info", info(self._services.pool)))

    async def _ping(self, event: Received) -> None:
        asked = await self._read(event, Ping)
        await self._send(Event("pong", {"text": asked.text} if asked.text else {}))

    async def _select(self, event: Received) -> None:
        name = (await self._read(event, SelectProgram)).name
        if name and name != PROGRAM:
            models.choose(self._services.pool, name, ALL_JOBS, stand_in=False)  # raises ModelNotFound
        self._program = "" if name == PROGRAM else name

    # Speech to text

    async def _transcribe(self, event: Received) -> None:
        self._forget_sound()
        try:
            asked = await self._read(event, Transcribe)
            self._wanted = hearing.options(self._services, self._model(asked.name, "asr"), asked)
        except EdgeserveError:
            self._deaf = True
            raise

    async def _audio_start(self, event: Received) -> None:
        if self._deaf:
            return
        if self._hearing is not None:
            self._hearing.close()
        self._begin(await self._read(event, SoundForm))

    def _begin(self, form: SoundForm) -> Hearing:
        try:
            if self._wanted is None:
                asked = Transcribe(Fields({}), self._services.limits)
                self._wanted = hearing.options(self._services, self._model("", "asr"), asked)
            self._hearing = Hearing(self._services, self._send, self._client, self._wanted, form)
        except EdgeserveError:
            self._deaf = True
            raise
        return self._hearing

    async def _audio_chunk(self, event: Received) -> None:
        if self._deaf:
            return
        form = await self._read(event, SoundForm)
        heard = self._hearing or self._begin(form)
        try:
            await heard.push(form, event.payload)
        except EdgeserveError:
            self._forget_sound()
            self._deaf = True
            raise

    async def _audio_stop(self, event: Received) -> None:
        try:
            if self._hearing is not None:
                await self._hearing.end()
        finally:
            self._forget_sound()

    def _forget_sound(self) -> None:
        """End the utterance; the next one begins afresh."""
        if self._hearing is not None:
            self._hearing.close()
        self._hearing, self._wanted, self._deaf = None, None, False

    # Text to speech

    def _speaking(self, voice: Voice | None) -> Speaking:
        pool = self._services.pool
        chosen = voices.choose(pool, self._model("", "tts"), voice)
        pool.rung(chosen[0])  # raises where nothing is configured
        return Speaking(pool, self._send, *chosen)

    async def _synthesize(self, event: Received) -> None:
        if self._dictation is not None or self._mute:
            return  # the whole text once more, for servers that do not know parts
        try:
            asked = await self._read(event, Synthesize)
            asked.check()
            speaking = self._speaking(asked.voice)
            await speaking.say(asked.text)
        except Cancelled:
            raise
        except EdgeserveError as error:
            await self._send(failure(error))
            await self._send(Event("audio-stop"))  # clients wait for it
        else:
            await speaking.stop()

    async def _synthesize_start(self, event: Received) -> None:
        await self._hush()
        self._mute = True  # until the start has succeeded
        asked = await self._read(event, SynthesizeStart)
        asked.check()
        self._dictation = Dictation(self._speaking(asked.voice), self._services.limits)
        self._mute = False

    async def _synthesize_chunk(self, event: Received) -> None:
        if self._dictation is None:
            return
        try:
            await self._dictation.add((await self._read(event, SynthesizeChunk)).text)
        except EdgeserveError:
            await self._hush()
            self._mute = True
            raise

    async def _synthesize_stop(self, event: Received) -> None:
        dictation = self._dictation
        try:
            if dictation is not None:
                await dictation.end()
        except Cancelled:
            raise
        except EdgeserveError as error:
            await self._send(failure(error))
        await self._hush()
        self._mute = False
        await self._send(Event("synthesize-stopped"))

    async def _hush(self) -> None:
        if self._dictation is not None:
            dictation, self._dictation = self._dictation, None
            await dictation.close()

    # Conversation

    async def _transcript(self, event: Received) -> None:
        asked = await self._read(event, Asked)
        await talk(self._services, self._send, self._client, self._model("", *CHAT), asked)
