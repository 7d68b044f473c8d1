"""Live transcription over HTTP: start, push, push, …, flush."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import models
from edgeserve.api.auth import client_of
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.json_body import check_media, read_bytes, read_record
from edgeserve.api.limits import Limits, limits_of
from edgeserve.api.live.entries import HEADER
from edgeserve.api.presence import unless_gone
from edgeserve.api.question import Question
from edgeserve.api.schema import Record, Strict
from edgeserve.api.sound import languages
from edgeserve.api.values import Text
from edgeserve.errors import InvalidRequest
from edgeserve.live.ear import Options
from edgeserve.live.session import Session, Step
from edgeserve.live.sessions import DEFAULT, Sessions
from edgeserve.live.window import MAX_PUSH_BYTES, MAX_PUSH_SECONDS
from edgeserve.residency.pool import Pool

MAX_OPTIONS = 64 << 10
"""Bytes of a body or a command with options."""
PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
"""Headers of proxies. They may lie about the client, but a client without a proxy sends none."""


class Live(Question):
    """The body of POST /v1/transcribe/stream, and the query of the WebSocket."""

    STRICT = True  # a WebSocket has no header for the names of ignored fields

    language = Text(languages.WORDS, limit=NAME_CHARS)
    prompt = Text("earlier text", limit=4096)

    def options(self, pool: Pool) -> Options:
        """The options of a session. Raises InvalidRequest for an unknown language, and NotConfigured."""
        model = models.choose(pool, self.model, ("asr",))
        language = languages.choose(pool.languages(model), self.language)
        return Options(language, self.prompt or None, self.keep_alive, model)


class Samples(Record):
    """The body of POST /v1/transcribe/push, which is no JSON."""

    MEDIA = "application/octet-stream"

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        words = (
            f"float32 little-endian, 16 kHz, mono; at most {MAX_PUSH_SECONDS:g} s; none only asks for the words so far"
        )
        return {"type": "string", "format": "binary", "description": words}


class SessionQuery(Strict):
    """The query of push and flush."""

    session = Text("of POST /v1/transcribe/stream; left out: the default session")


async def start(request: Request) -> Response:
    data = await read_bytes(request, MAX_OPTIONS, "a live transcription takes only language, prompt and keep_alive")
    if data:
        check_media(request)
    limits = limits_of(request)
    asked = await read_record(data, Live, limits) if data else Live(Fields({}), limits)
    pool: Pool = request.app.state.pool
    options = asked.options(pool)
    pool.prefetches.expect_model(options.model)
    sessions: Sessions = request.app.state.sessions
    session = sessions.start(options, client_of(request.scope))
    return JSONResponse(started_body(session, sessions))


async def push(request: Request) -> Response:
    text = f"push at most {MAX_PUSH_SECONDS:g} s of samples at once"
    name, data = _named(request), await read_bytes(request, 2 * MAX_PUSH_BYTES, text)
    pool: Pool = request.app.state.pool
    if name == DEFAULT:
        expect(pool)  # before the push begins a session

    async def pushed() -> Response:
        with _using(request, name) as session:
            expect(pool, session.options.model)
            await session.push(data)
            return JSONResponse(step_body(session, session.step()))

    return await unless_gone(request, pushed())


async def flush(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    await read_bytes(request, MAX_OPTIONS, "a flush takes no body")

    async def flushed() -> Response:
        with _using(request, _named(request)) as session:
            last = flushed_body(session, await session.flush())
            sessions.end(session)
            return JSONResponse(last)

    return await unless_gone(request, flushed())


async def delete(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    with _using(request, request.path_params["session"]) as session:
        sessions.end(session)
        return JSONResponse({"session": session.name, "status": "deleted"})


def expect(pool: Pool, model: str = "") -> None:
    """Fetch a model's files ahead of the sound. ``model``: id; empty: the default. Raises NotConfigured."""
    model = model or models.choose(pool, "", ("asr",))
    pool.rung(model)
    pool.prefetches.expect_model(model)


def started_body(session: Session, sessions: Sessions) -> dict[str, Any]:
    return {"session": session.name, "status": "started", "expires_after": sessions.idle_seconds}


def step_body(session: Session, step: Step) -> dict[str, Any]:
    return {"session": session.name, **dataclasses.asdict(step)}


def flushed_body(session: Session, step: Step) -> dict[str, Any]:
    return step_body(session, step) | {"duration": round(session.duration, 2)}


def _named(request: Request) -> str:
    """The session's name, from the header or the query. Raises InvalidRequest where they differ."""
    asked = SessionQuery(Fields(dict(request.query_params), written=True), limits_of(request))
    names = {one for one in (request.headers.get(HEADER), asked.session) if one}
    if len(names) > 1:
        raise InvalidRequest(f"the header {HEADER} and the query name different sessions; give one", param="session")
    return names.pop() if names else DEFAULT


def _using(request: Request, name: str) -> AbstractContextManager[Session]:
    sessions: Sessions = request.app.state.sessions
    if name == DEFAULT and any(one in request.headers for one in PROXY_HEADERS):
        text = "is required behind a proxy, where all clients have one address: start one with POST"
        raise InvalidRequest(f"session {text} /v1/transcribe/stream", param="session")
    return sessions.using(name, client_of(request.scope))
