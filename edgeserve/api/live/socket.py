"""Live transcription over a WebSocket. Binary frames are samples, text frames are commands.

The session begins before the connection is accepted, so that a refusal is an HTTP answer like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.datastructures import State
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from edgeserve.api import failures
from edgeserve.api.auth import client_of
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import read_object
from edgeserve.api.live import http as live
from edgeserve.api.live.http import MAX_OPTIONS, Live
from edgeserve.api.schema import Strict, read_variant
from edgeserve.api.values import Enum
from edgeserve.errors import Busy, EdgeserveError, NotFound, TooLarge
from edgeserve.live.ear import Options
from edgeserve.live.session import PATIENCE_SECONDS, Session
from edgeserve.live.sessions import Sessions

log = logging.getLogger("edgeserve.live")

PROTOCOL = "edgeserve.live"
"""Sub-protocol that browsers ask for beside the one with their key."""
IDLE = 1001
"""Close code of a connection that sent nothing for too long: going away (RFC 6455, 7.4.1)."""


class Start(Live):
    """Begins a new transcription."""

    type = Enum("", ("start",), required=True)


class Flush(Strict):
    """Ends the transcription and begins a new one with the same options."""

    type = Enum("", ("flush",), required=True)


class Close(Strict):
    """Closes the connection."""

    type = Enum("", ("close",), required=True)


COMMANDS: Mapping[str, type[Start | Flush | Close]] = MappingProxyType({"start": Start, "flush": Flush, "close": Close})


async def endpoint(socket: WebSocket) -> None:
    state: State = socket.app.state
    try:
        asked = Live(Fields(dict(socket.query_params), written=True), state.limits)
        options = asked.options(state.pool)
        live.expect(state.pool, options.model)
        conversation = Conversation(socket, state.sessions, options)
    except EdgeserveError as error:
        await socket.send_denial_response(failures.respond(error))
        return
    await conversation.run()


def _read_frame(text: str) -> Fields:
    """The object in a text frame. Raises InvalidRequest and TooLarge."""
    data = text.encode()
    if len(data) > MAX_OPTIONS:
        raise TooLarge(f"a text frame has {len(data)} bytes; the limit is {MAX_OPTIONS}: send sound in binary frames")
    return read_object(data, "a text frame")


class Conversation:
    """One connection with its session. Raises Busy when all places for sessions are taken."""

    def __init__(self, socket: WebSocket, sessions: Sessions, options: Options) -> None:
        self._socket = socket
        self._sessions = sessions
        self._client = client_of(socket.scope)
        self._news = asyncio.Event()
        self._session = self._begin(options)
        self._behind = False

    def _begin(self, options: Options) -> Session:
        session = self._sessions.start(options, self._client)
        session.on_news = self._news.set
        return session

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        sender = None
        try:
            await self._socket.accept(PROTOCOL if PROTOCOL in self._socket.scope["subprotocols"] else None)
            await self._send("started", live.started_body(self._session, self._sessions))
            sender = asyncio.create_task(self._send_news())
            while self._is_open:
                await self._take(await self._socket.receive())
        except WebSocketDisconnect:
            log.debug("the client of live transcription %s has gone", self._session.name)
        finally:
            self._sessions.end(self._session)
            if sender is not None:
                sender.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect):
                    await sender

    @property
    def _is_open(self) -> bool:
        """Whether this side has not closed. Frames that come after its close are not read."""
        return self._socket.application_state is WebSocketState.CONNECTED

    async def _take(self, message: Any) -> None:
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        try:
            if (data := message.get("bytes")) is not None:
                await self._push(data)
            else:
                await self._command(_read_frame(message["text"]))
        except NotFound:
            self._news.set()  # it has expired; the sender of the news reports it
        except EdgeserveError as error:
            await self._send("error", failures.body(error))

    async def _push(self, data: bytes) -> None:
        """Take sound. The session drops sound without room in time; one error says so until there is room again."""
        try:
            with self._sessions.using(self._session.name, self._client) as session:
                await session.push(data, 0.0 if self._behind else PATIENCE_SECONDS)
        except Busy:
            was_behind, self._behind = self._behind, True
            if not was_behind:
                raise
        else:
            self._behind = False

    async def _command(self, fields: Fields) -> None:
        state: State = self._socket.app.state
        match read_variant(fields, COMMANDS, state.limits):
            case Start() as command:
                self._renew(command.options(state.pool))
                await self._send("started", live.started_body(self._session, self._sessions))
            case Flush():
                with self._sessions.using(self._session.name, self._client) as session:
                    last = live.flushed_body(session, await session.flush())
                self._renew(session.options)
                await self._send("flushed", last)
            case Close() if self._is_open:  # else the session has expired meanwhile
                await self._socket.close()

    def _renew(self, options: Options) -> None:
        """End the session and begin another."""
        self._session.on_news = lambda: None
        self._sessions.end(self._session)
        self._session = self._begin(options)

    async def _send_news(self) -> None:
        partial = ""
        while True:
            await self._news.wait()
            self._news.clear()
            session = self._session
            try:
                step = session.step()
            except NotFound as error:
                await self._send("error", failures.body(error))
                await self._socket.close(IDLE, f"nothing came for {self._sessions.idle_seconds:g} s")
                return
            except EdgeserveError as error:
                await self._send("error", failures.body(error))
                continue
            if step.text or step.is_final or step.partial != partial:
                await self._send("text", live.step_body(session, step))
            partial = step.partial

    async def _send(self, kind: str, value: dict[str, Any]) -> None:
        if self._is_open:
            await self._socket.send_text(json.dumps({"type": kind, **value}, ensure_ascii=False))
