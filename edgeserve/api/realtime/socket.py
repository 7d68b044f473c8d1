"""The WebSocket of /v1/realtime: text frames of JSON both ways."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from starlette.datastructures import State
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from edgeserve.api import cache_salt, failures
from edgeserve.api.auth import client_of
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.places import Place
from edgeserve.api.realtime import beta, commands
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.engines import Engines
from edgeserve.api.realtime.frames import read_frame
from edgeserve.api.realtime.outbox import Outbox
from edgeserve.api.realtime.refusal import words
from edgeserve.api.realtime.response import Response
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.work import Answer, Draft, Settle, Stop, Undraft, Warm, Work
from edgeserve.errors import EdgeserveError
from edgeserve.messages import FinishEvent
from edgeserve.talk.forms import Form, Incoming
from edgeserve.talk.pace import Pace
from edgeserve.talk.recorded import SECOND

log = logging.getLogger("edgeserve.realtime")

PROTOCOL = "realtime"
"""Sub-protocol that browsers ask for beside the one with their key."""
IDLE_SECONDS = 900.0
"""Seconds without a frame after which a session ends."""
GOING_AWAY, REFUSED = 1001, 1008
"""Close codes (RFC 6455, 7.4.1)."""
BETA = "realtime=v1"
MAX_SETTLING = 8
"""Sounds of one session that wait for their words. The client waits, too."""
MAX_SETTLING_BYTES = 8 << 20
"""Bytes of these sounds: two minutes."""


async def endpoint(socket: WebSocket) -> None:
    state: State = socket.app.state
    try:
        try:
            with state.places.one(client_of(socket.scope)) as place:
                await _accept(socket)
                await _serve(socket, state, place)
        except EdgeserveError as error:
            await _refuse(socket, error)
    except WebSocketDisconnect:
        log.debug("the client of a conversation has gone")


async def _refuse(socket: WebSocket, error: EdgeserveError) -> None:
    if socket.application_state is WebSocketState.CONNECTING:
        await socket.send_denial_response(failures.respond(error))
        return
    await socket.send_json({"type": "error", "event_id": "event_0", "error": words(error) | {"event_id": None}})
    await socket.close(REFUSED, error.message.encode()[:120].decode(errors="ignore"))


async def _accept(socket: WebSocket) -> None:
    await socket.accept(PROTOCOL if PROTOCOL in socket.scope["subprotocols"] else None)


async def _serve(socket: WebSocket, state: State, place: Place) -> None:
    """Raises InvalidRequest, ModelNotFound and NotConfigured for what the address asks for."""
    query = Fields(dict(socket.query_params), written=True)
    listens = query.text("intent", limit=NAME_CHARS) == "transcription"
    limits: Limits = state.limits
    config = Config.new(limits, query.text("model", limit=NAME_CHARS), transcription=listens)
    engines = Engines(state.pool, cache_salt.salt(socket, ""))
    engines.check(config)
    talk = Talk(socket, Session(config, limits, engines.check), engines, place, Pace(state.sound_turns))
    await talk.run()


class Talk:
    """One connection with its session. Tasks: a reader, a sender, words one after the other, and one answer."""

    def __init__(self, socket: WebSocket, session: Session, engines: Engines, place: Place, pace: Pace) -> None:
        self._socket, self._session, self._engines = socket, session, engines
        self._place, self._pace = place, pace
        self._is_beta = BETA in socket.headers.get("openai-beta", "")
        self._outbox = Outbox()
        self._draft: asyncio.Task[str] | None = None
        self._settling: dict[asyncio.Task[None], int] = {}
        """Tasks that find words, in the order of their items, with the bytes of their sounds."""
        self._answers: list[asyncio.Task[None]] = []
        """The answer under way, behind answers that were cancelled and have not let go of their engines."""
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        self._session.begin()
        self._follow()
        tasks = [asyncio.ensure_future(one) for one in (self._outbox.run(self._send), self._read(), self._give_way())]
        try:
            await asyncio.wait([*tasks, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for one in (*tasks, self._failed):
                if one.done():
                    one.result()
        finally:
            for one in (*tasks, *self._work()):
                one.cancel()
            await asyncio.wait([*tasks, *self._work()])

    def _work(self) -> list[asyncio.Task[Any]]:
        return [one for one in (self._draft, *self._answers, *self._settling) if one is not None]

    async def _give_way(self) -> None:
        await self._place.lost.wait()
        await self._socket.close(GOING_AWAY, "nothing came for a while, and another client needs the place")

    async def _send(self, text: str) -> None:
        self._place.touch()
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.send_text(text)

    async def _read(self) -> None:
        while True:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    message = await self._socket.receive()
            except TimeoutError:
                await self._socket.close(GOING_AWAY, f"nothing came for {IDLE_SECONDS:g} s")
                return
            if message["type"] == "websocket.disconnect":
                return
            self._place.touch()
            await self._take(message)
            self._follow()
            await self._until_room()

    async def _until_room(self) -> None:
        """Wait while too many events or sounds of this session are under way."""
        await self._outbox.room()
        while len(self._settling) > MAX_SETTLING or sum(self._settling.values()) > MAX_SETTLING_BYTES:
            await asyncio.wait(self._settling, return_when=asyncio.FIRST_COMPLETED)

    async def _take(self, message: Any) -> None:
        event_id = None
        try:
            fields = await read_frame(message)
            given = fields.raw("event_id")
            event_id = given[:512] if isinstance(given, str) else None
            async with self._pace.piece():  # a hundred tools take some 60 ms
                command = self._session.read(fields)
                if not isinstance(command, commands.Append):
                    self._session.take(command)
            if command.ignored:
                log.info("an event has unknown fields, which change nothing: %s", ", ".join(command.ignored))
            if isinstance(command, commands.Append):
                await self._hear(command)
        except EdgeserveError as error:
            self._session.fail(error, event_id)

    async def _hear(self, command: commands.Append) -> None:
        """Take sound in. Raises InvalidRequest, and Busy where this client's sessions keep too much sound."""
        pieces = self._session.pieces(command)
        coming = self._session.config.source.seconds(len(command.audio)) * SECOND
        self._place.keep(self._kept + int(coming))
        while True:
            async with self._pace.piece():
                if (piece := next(pieces, None)) is None:
                    break
                self._session.hear(piece)
                self._follow()
            await self._until_room()
        self._place.keep(min(self._kept, self._place.sound))

    def _forget_sound(self, task: asyncio.Task[None]) -> None:
        del self._settling[task]
        self._place.keep(min(self._kept, self._place.sound))

    @property
    def _kept(self) -> int:
        """Bytes of sound that the session keeps."""
        return int(self._session.buffer.seconds * SECOND) + sum(self._settling.values())

    def _follow(self) -> None:
        """Do the work that the session asks for, and send its events."""
        while self._session.work:
            self._begin(self._session.work.pop(0))
        for event in self._session.out:
            told = beta.event(event) if self._is_beta else event
            if told is not None:
                self._outbox.put(told)
        self._session.out.clear()

    def _begin(self, work: Work) -> None:
        match work:
            case Warm():
                self._engines.warm(self._session.config)
            case Draft():
                self._drop_draft()
                self._draft = self._start(self._drafted(work.sound))
            case Undraft():
                self._drop_draft()
            case Settle():
                draft, self._draft = self._draft, None
                if draft is not None and not work.drafted:
                    draft.cancel()
                before = next(reversed(self._settling), None)
                task = self._start(self._settled(work, draft if work.drafted else None, before))
                self._settling[task] = len(work.sound)
                task.add_done_callback(self._forget_sound)
            case Answer():
                task = self._start(self._answered(work.response, tuple(self._answers)))
                self._answers.append(task)
                task.add_done_callback(self._answers.remove)
            case Stop():
                if self._answers:
                    self._answers[-1].cancel()

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._watch)
        return task

    def _watch(self, task: asyncio.Task[Any]) -> None:
        """Let an unforeseen failure end the connection."""
        if task.cancelled() or (error := task.exception()) is None or isinstance(error, EdgeserveError):
            return
        if not self._failed.done():
            self._failed.set_exception(error)

    def _drop_draft(self) -> None:
        if self._draft is not None:
            self._draft.cancel()
            self._draft = None

    async def _drafted(self, sound: bytes) -> str:
        text = await self._engines.words(self._session.config, sound)
        if self._draft is asyncio.current_task():
            self._session.drafted(text)
            self._follow()
        return text

    async def _settled(self, work: Settle, draft: asyncio.Task[str] | None, before: asyncio.Task[None] | None) -> None:
        """Find the words of an item, in the order of the items."""
        try:
            text = await self._of_draft(draft)
            if text is None:
                sound = await self._heard(work.sound, work.form, before) if work.form else work.sound
                text = await self._engines.words(self._session.config, sound)
        except EdgeserveError as error:
            await _over(before)
            self._session.not_transcribed(work.item, error)
        else:
            await _over(before)
            seconds = work.form.seconds(len(work.sound)) if work.form else len(work.sound) / SECOND
            self._session.transcribed(work.item, text, seconds)
        finally:
            if draft is not None:
                draft.cancel()
        self._follow()

    async def _heard(self, sound: bytes, form: Form, before: asyncio.Task[None] | None) -> bytes:
        """A sound as engines hear it. One sound of the session at a time, since they grow to eight times their size."""
        await _over(before)
        made, pieces = bytearray(), Incoming(form).feed(sound)
        while True:
            async with self._pace.piece():
                if (piece := next(pieces, None)) is None:
                    return bytes(made)
                made += piece

    async def _of_draft(self, draft: asyncio.Task[str] | None) -> str | None:
        """The words of the draft; None where it has none, since an engine refused it."""
        if draft is None:
            return None
        await asyncio.wait([draft])
        return None if draft.cancelled() or draft.exception() is not None else draft.result()

    async def _answered(self, response: Response, before: tuple[asyncio.Task[None], ...]) -> None:
        """Make an answer, after the words of all items are known and those before have let go of their engines."""
        for task in before:
            await _over(task)
        status, reason, error = "completed", "", None
        try:
            for task in list(self._settling):
                await _over(task)
            items = self._session.conversation.items if response.prompt is None else response.prompt
            end: FinishEvent | None = await self._engines.answer(response, list(items), self._room)
            if end is not None:
                response.count(end)
                if end.reason == "length":
                    status, reason = "incomplete", "max_output_tokens"
        except EdgeserveError as failure:
            log.warning("an answer of a conversation failed: %s", failure.message)
            status, error = "failed", words(failure)
            if not response.over:
                self._session.fail(failure)
        response.end(status, reason, error)
        self._session.ended(response)
        self._follow()

    async def _room(self) -> None:
        self._follow()
        await self._outbox.room()


async def _over(task: asyncio.Task[None] | None) -> None:
    """Wait until a task has ended, however it did."""
    if task is not None:
        await asyncio.wait([task])
