"""The models of a session and their work: the words of a sound, an answer, and its speech.

A lease lasts as long as the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

from edgeserve.api import models
from edgeserve.api.realtime import prompts
from edgeserve.api.realtime.commands import Command
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.items import Item
from edgeserve.api.realtime.pictures import Pictures
from edgeserve.api.realtime.response import Response
from edgeserve.api.sound import languages, voices
from edgeserve.engine import Rung
from edgeserve.errors import ContextOverflow, EdgeserveError
from edgeserve.jobs import CHAT, PICTURES
from edgeserve.live.ear import Options
from edgeserve.live.session import Session
from edgeserve.live.sessions import Sessions
from edgeserve.messages import (
    AudioEvent,
    DetectRequest,
    Event,
    FinishEvent,
    Pcm,
    SegmentEvent,
    SpeakRequest,
    SpeechChances,
    TokenEvent,
    ToolCall,
    ToolCallEvent,
    TranscribeRequest,
)
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool
from edgeserve.talk.clauses import Clauses
from edgeserve.talk.first_sounds import FirstSounds
from edgeserve.talk.forms import Outgoing

log = logging.getLogger("edgeserve.realtime")

DETECTIONS = Aside("detections of speech", threads=2)
"""Each takes a few milliseconds. A worker that does not answer holds one until it is killed."""
SHORTENINGS = 8
"""Times that a conversation is halved until it fits into the context."""
Room = Callable[[], Awaitable[None]]
Parts = asyncio.Queue[str | ToolCall | None]
"""Clauses and calls in their order, and None at the end."""


class Engines:
    """All that a session asks of engines. ``salt`` as in ``ChatRequest``. ``clock`` counts seconds."""

    def __init__(
        self,
        pool: Pool,
        pictures: Pictures,
        first_sounds: FirstSounds,
        live: Sessions,
        salt: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._pictures = pictures
        self._first_sounds = first_sounds
        self._live = live
        self._salt = salt
        self._clock = clock
        self._says_why = False

    def check(self, config: Config) -> None:
        """Raises ModelNotFound, NotConfigured and InvalidRequest for settings that no served model can follow."""
        ear = self._ear(config)
        if ear in self._pool.gates:
            languages.choose(self._pool.languages(ear), self._language(config))
        if config.talks:
            self._pool.rung(self._chat(config))
            mouth = models.choose(self._pool, "", ("tts",))
            if mouth in self._pool.gates:
                voices.choose(self._pool.voices(mouth), config.voice)
        else:
            self._pool.rung(ear)

    async def look(self, command: Command) -> None:
        """Check the pictures of an event. Raises InvalidRequest, and NotConfigured without a model for pictures."""
        if await self._pictures.check(command):
            self._pool.rung(models.choose(self._pool, "", PICTURES))

    def warm(self, config: Config) -> None:
        """Get the engines of a turn ready while the user speaks, as far as memory is free. Returns at once."""
        wanted = [self._ear(config)]
        if config.talks:
            wanted.append(self._chat(config))
        if config.talks and config.speaks:
            wanted.append(models.choose(self._pool, "", ("tts",)))
        for model in wanted:
            if model in self._pool.gates:
                self._pool.gates[model].warm_up()

    async def read_ahead(self, config: Config, items: list[Item], words: str) -> None:
        """Let the model read the prompt of a coming answer while nothing else works. ``words``: as in ``Warm``.

        Nothing happens where the conversation has pictures, which would be decoded each time. Raises the errors of a
        lease and of the engine.
        """
        if not config.answers_turns or any(one.pictures for one in items):
            return
        turn = Item("", role="user", content=[{"type": "input_audio", "transcript": words}])
        messages = await self._pictures.messages([*items, turn])
        await prompts.read_ahead(self._pool, self._chat(config), prompts.asked(config, messages, self._salt))

    def detects(self, config: Config) -> bool:
        """Whether the model that transcribes has a detector of speech. Loudness finds turns without one."""
        ear = self._ear(config)
        able = ear in self._pool.gates and self._pool.gates[ear].host.detects
        if not able and config.rules is not None:
            why = f"{ear} has no detector of speech, as Whisper on ONNX Runtime has with vad = true"
            self._go_by_loudness(why, logging.INFO)
        return able

    async def detect(self, config: Config, request: DetectRequest) -> SpeechChances | None:
        """The chances of speech in a sound; None where none can be had now. A cold model is heated for the next."""
        gate = self._pool.gates.get(self._ear(config))
        if gate is None or gate.rung is Rung.COLD:
            if gate is not None:
                gate.warm_up()
            return None
        try:
            return await DETECTIONS.run(gate.detect, request)
        except EdgeserveError as error:
            self._go_by_loudness(error.message, logging.WARNING)
            return None

    def _go_by_loudness(self, why: str, level: int) -> None:
        """Say once a session that loudness finds its turns."""
        if not self._says_why:
            self._says_why = True
            log.log(level, "the turns of a conversation are found by loudness: %s", why)

    def overhear(self, config: Config) -> Session:
        """A live transcription for one turn."""
        prompt = config.transcription.prompt if config.transcription else ""
        ear = self._ear(config)
        language = languages.choose(self._pool.languages(ear), self._language(config))
        return self._live.overhear(Options(language, prompt or None, model=ear))

    async def words(self, config: Config, sound: bytes) -> str:
        """The words in a sound. Raises the errors of a lease and of the engine."""
        ear = self._ear(config)
        language = languages.choose(self._pool.languages(ear), self._language(config))
        prompt = config.transcription.prompt if config.transcription else ""
        request = TranscribeRequest(Pcm(sound), language, prompt or None)
        async with await self._pool.lease(ear) as lease:
            texts = [event.text async for event in lease.run(request) if isinstance(event, SegmentEvent)]
        return "".join(texts).strip()

    async def answer(self, response: Response, items: list[Item], room: Room) -> FinishEvent | None:
        """Make an answer; returns its end. Waits for ``room`` after each event.

        Raises the errors of leases and of engines.
        """
        if not response.config.speaks:
            return await self._write(response, items, room)
        parts: Parts = asyncio.Queue()
        speaking = asyncio.create_task(self._speak(response, parts, room))
        thinking = asyncio.create_task(self._think(response, items, parts))
        try:
            await asyncio.wait([speaking, thinking], return_when=asyncio.FIRST_EXCEPTION)
            end = await thinking if thinking.done() else None
            await speaking
            return end
        finally:
            speaking.cancel()
            thinking.cancel()
            await asyncio.wait([speaking, thinking])

    async def _write(self, response: Response, items: list[Item], room: Room) -> FinishEvent | None:
        end = None
        async with contextlib.aclosing(self._events(response.config, items)) as events:
            async for event in events:
                match event:
                    case TokenEvent():
                        response.say(event.text)
                    case ToolCallEvent():
                        response.call(event.call)
                    case FinishEvent():
                        end = event
                await room()
        return end

    async def _think(self, response: Response, items: list[Item], parts: Parts) -> FinishEvent | None:
        """Cut the model's text into clauses. The text is bounded by the context."""
        end, clauses = None, Clauses()
        async with contextlib.aclosing(self._events(response.config, items)) as events:
            async for event in events:
                match event:
                    case TokenEvent():
                        new: list[str | ToolCall] = [*clauses.feed(event.text)]
                    case ToolCallEvent():
                        new = [*clauses.end(), event.call]
                    case FinishEvent():
                        end, new = event, [*clauses.end()]
                    case _:
                        new = []
                for one in new:
                    parts.put_nowait(one)
        parts.put_nowait(None)
        return end

    async def _speak(self, response: Response, parts: Parts, room: Room) -> None:
        """Say the clauses as they come. A lease lasts for one clause, since the model may still think."""
        began: float | None = None
        with self._first_sounds.waiting() as first:
            while (part := await parts.get()) is not None:
                if isinstance(part, ToolCall):
                    response.call(part)
                    continue
                if began is not None:
                    await self._first_sounds.give_way(response.seconds - (self._clock() - began))
                response.speak(part)
                if part.strip():
                    await self._say(part.strip(), response, room)
                    began = began or self._clock()
                    first.came()
                response.spoke()
                await room()

    async def _say(self, clause: str, response: Response, room: Room) -> None:
        config, out = response.config, Outgoing(response.config.target)
        mouth = models.choose(self._pool, "", ("tts",))
        voice = voices.choose(self._pool.voices(mouth), config.voice)
        async with await self._pool.lease(mouth) as lease:
            async for event in lease.run(SpeakRequest(clause, voice, config.speed)):
                if isinstance(event, AudioEvent):
                    for piece in out.feed(event):
                        response.sound(piece)
                        await room()
        response.sound(out.end())

    async def _events(self, config: Config, items: list[Item]) -> AsyncGenerator[Event, None]:
        """The model's answer. The oldest messages are left out until the others fit into its context."""
        messages = await self._pictures.messages(items)
        chat = self._seeing(config) if any(one.images for one in messages) else self._chat(config)
        for left in range(SHORTENINGS, -1, -1):
            begun = False
            try:
                async with await self._pool.lease(chat) as lease:
                    async for event in lease.run(prompts.asked(config, messages, self._salt)):
                        begun = True
                        yield event
                return
            except ContextOverflow:
                if begun or not left or len(messages) < 2:
                    raise
                messages = prompts.shortened(messages)

    def _chat(self, config: Config) -> str:
        return models.choose(self._pool, config.settings.model, CHAT)

    def _seeing(self, config: Config) -> str:
        """The model that answers with pictures: the session's, else the default of those that see."""
        named = models.found_by_name(self._pool, config.settings.model, PICTURES)
        return named or models.choose(self._pool, "", PICTURES)

    def _ear(self, config: Config) -> str:
        return models.choose(self._pool, config.transcription.model if config.transcription else "", ("asr",))

    def _language(self, config: Config) -> str:
        return config.transcription.language if config.transcription else ""
