"""Live transcription over a WebSocket: binary frames are samples, text frames commands, answers come by themselves.

The session is there before the connection is accepted, so that a refusal is an HTTP answer like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any

from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from edgeserve.api import failures
from edgeserve.api.auth import client_of
from edgeserve.api.fields import AT_ONCE, Fields, read_object
from edgeserve.api.live import http as live
from edgeserve.errors import Busy, EdgeserveError, InvalidRequest, NotFound, TooLarge
from edgeserve.live.ear import Options
from edgeserve.live.session import PATIENCE_SECONDS, Session
from edgeserve.live.sessions import Sessions

log = logging.getLogger("edgeserve.live")

IDLE = 1001
"""Going away (RFC 6455, 7.4.1): nothing came for too long."""


async def plain(request: Request) -> Response:
    """For who asks without the handshake: 426 (RFC 9110, 15.5.22)."""
    text = f"{request.url.path} is a WebSocket: connect to it with ws:// or wss:// and a client of WebSockets,"
    error = InvalidRequest(f"{text} or send sound over HTTP to POST /v1/transcribe/stream, push and flush")
    return JSONResponse(failures.body(error), 426, {"Upgrade": "websocket", "Connection": "Upgrade"})


async def endpoint(socket: WebSocket) -> None:
    state: State = socket.app.state
    try:
        options = live.read_options(Fields(dict(socket.query_params), written=True), state.pool)
        live.expect(state.pool)
        conversation = Conversation(socket, state.sessions, options)
    except EdgeserveError as error:
        await socket.send_denial_response(failures.respond(error))
        return
    await conversation.run()


def _read_frame(text: str) -> Fields:
    """A command is small, so it is read on the event loop."""
    data = text.encode()
    if len(data) > AT_ONCE:
        raise TooLarge(f"a text frame has {len(data)} bytes; the limit is {AT_ONCE}: send sound in binary frames")
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
        """Until either side ends it."""
        teller = None
        try:
            await self._socket.accept()
            await self._tell("started", live.started(self._session, self._sessions))
            teller = asyncio.create_task(self._tell_news())
            while True:
                await self._take(await self._socket.receive())
        except WebSocketDisconnect:
            log.debug("the client of live transcription %s has gone", self._session.name)
        finally:
            self._sessions.end(self._session)
            if teller is not None:
                teller.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect):
                    await teller

    async def _take(self, message: Any) -> None:
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        try:
            if (data := message.get("bytes")) is not None:
                await self._push(data)
            else:
                await self._command(_read_frame(message["text"]))
        except NotFound:
            self._news.set()  # it has expired; whoever tells the news says so
        except EdgeserveError as error:
            await self._tell("error", failures.body(error))

    async def _push(self, data: bytes) -> None:
        """Sound for which there is no room in time is left out, and told of once until there is room again."""
        try:
            with self._sessions.using(self._session.name, self._client) as session:
                await session.push(data, 0.0 if self._behind else PATIENCE_SECONDS)
        except Busy:
            told, self._behind = self._behind, True
            if not told:
                raise
        else:
            self._behind = False

    async def _command(self, fields: Fields) -> None:
        kind = fields.required_text("type")
        if kind == "start":
            options = live.read_options(fields, self._socket.app.state.pool, "type")
            self._renew(options)
            await self._tell("started", live.started(self._session, self._sessions))
            return
        fields.only(("type",))
        if kind == "flush":
            with self._sessions.using(self._session.name, self._client) as session:
                last = live.flushed(session, await session.flush())
            self._renew(session.options)
            await self._tell("flushed", last)
        elif kind == "close":
            await self._socket.close()
        else:
            raise fields.error("type", f"must be start, flush or close, not {kind[:80]!r}")

    def _renew(self, options: Options) -> None:
        """A new session in the place of this one."""
        self._session.on_news = lambda: None
        self._sessions.end(self._session)
        self._session = self._begin(options)

    async def _tell_news(self) -> None:
        partial = ""
        while True:
            await self._news.wait()
            self._news.clear()
            session = self._session
            try:
                step = session.step()
            except NotFound as error:
                await self._tell("error", failures.body(error))
                await self._socket.close(IDLE, f"nothing came for {self._sessions.idle_seconds:g} s")
                return
            except EdgeserveError as error:
                await self._tell("error", failures.body(error))
                continue
            if step.text or step.is_final or step.partial != partial:
                await self._tell("text", live.told(session, step))
            partial = step.partial

    async def _tell(self, kind: str, value: dict[str, Any]) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.send_text(json.dumps({"type": kind, **value}, ensure_ascii=False))
