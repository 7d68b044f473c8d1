"""The WebSocket of /v1/realtime: text frames of JSON both ways."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from starlette.datastructures import State
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from edgeserve import logs
from edgeserve.api import cache_salt, failures
from edgeserve.api.auth import client_of
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.places import Place
from edgeserve.api.realtime import beta, commands
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.engines import Engines
from edgeserve.api.realtime.frames import read_frame
from edgeserve.api.realtime.keeping import Keeping
from edgeserve.api.realtime.outbox import Outbox
from edgeserve.api.realtime.pictures import Pictures
from edgeserve.api.realtime.refusal import words
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.tasks import Tasks
from edgeserve.errors import EdgeserveError
from edgeserve.live.pace import Pace

log = logging.getLogger("edgeserve.realtime")

PROTOCOL = "realtime"
"""Sub-protocol that browsers ask for beside the one with their key."""
IDLE_SECONDS = 900.0
"""Seconds without a frame after which a session ends."""
GOING_AWAY, REFUSED = 1001, 1008
"""Close codes (RFC 6455, 7.4.1)."""
BETA = "realtime=v1"


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
    engines = Engines(state.pool, Pictures(state), state.first_sounds, state.sessions, cache_salt.salt(socket, ""))
    engines.check(config)
    session = Session(config, limits, engines.check, detects=engines.detects)
    await Talk(socket, session, engines, place, Pace(state.sessions.loop_time)).run()


class Talk:
    """One connection with its session: a reader, a sender, and the tasks of the session's work."""

    def __init__(self, socket: WebSocket, session: Session, engines: Engines, place: Place, pace: Pace) -> None:
        self._socket, self._session, self._engines = socket, session, engines
        self._place, self._pace = place, pace
        self._is_beta = BETA in socket.headers.get("openai-beta", "")
        self._outbox = Outbox()
        self._keeping = Keeping(session, place, self._outbox)
        self._tasks = Tasks(session, engines, self._keeping, pace, self._follow, self._outbox)

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        self._session.begin()
        self._follow()
        doors = (self._outbox.run(self._send, self._keeping.count), self._read(), self._give_way(), self._tasks.watch())
        tasks = [asyncio.ensure_future(one) for one in doors]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in tasks:
                if one.done():
                    one.result()
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.wait(tasks)
            await self._tasks.end()

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
            del message  # a silent session would keep its last frame
            self._follow()
            self._keeping.taken()
            await self._until_room()

    async def _until_room(self) -> None:
        """Wait while too many events or sounds of this session are under way."""
        await self._outbox.room()
        await self._tasks.room()

    async def _take(self, message: Any) -> None:
        event_id = None
        try:
            fields = await read_frame(message)
            given = fields.raw("event_id")
            event_id = given[:512] if isinstance(given, str) else None
            async with self._pace.piece():  # a hundred tools take some 60 ms
                command = self._session.read(fields)
            await self._engines.look(command)
            if not isinstance(command, commands.Append):
                async with self._pace.piece():
                    self._keeping.take(message["text"], freely=not isinstance(command, commands.Update))
                    self._session.take(command)
            if command.ignored:
                told = logs.shortened(", ".join(command.ignored), 1000)
                log.warning("an event has unknown fields, which change nothing: %s", told)
            if isinstance(command, commands.Append):
                await self._hear(command)
        except EdgeserveError as error:
            self._session.fail(error, event_id)

    async def _hear(self, command: commands.Append) -> None:
        """Take sound in. Raises InvalidRequest, and Busy where this client's sessions keep too much sound."""
        pieces = self._session.pieces(command)
        self._keeping.keep(self._session.config.source.heard(len(command.audio)))
        while True:
            async with self._pace.piece():
                if (piece := next(pieces, None)) is None:
                    break
                self._session.hear(piece)
                self._follow()
            await self._until_room()

    def _follow(self) -> None:
        """Do the work that the session asks for, and send its events."""
        while self._session.work:
            self._tasks.begin(self._session.work.pop(0))
        for event in self._session.out:
            told = beta.event(event) if self._is_beta else event
            if told is not None:
                self._outbox.put(told)
        self._session.out.clear()
