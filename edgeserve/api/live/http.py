"""Live transcription over HTTP: start, push, push, …, flush."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import keep_alive
from edgeserve.api.auth import client_of
from edgeserve.api.fields import AT_ONCE, Fields, check_media, read_bytes, read_object
from edgeserve.api.sound import languages
from edgeserve.errors import InvalidRequest
from edgeserve.live.ear import Options
from edgeserve.live.session import Session, Step
from edgeserve.live.sessions import DEFAULT, Sessions
from edgeserve.live.window import MAX_PUSH_BYTES, MAX_PUSH_SECONDS
from edgeserve.residency.pool import Pool

HEADER = "X-Session-Id"
FIELDS = ("language", "prompt", keep_alive.FIELD)
PROMPT_CHARS = 4096
OF_PROXIES = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
"""Headers that say who asks, which nobody can trust; but who sends one is not the client itself."""


async def start(request: Request) -> Response:
    data = await read_bytes(request, AT_ONCE, "a live transcription takes only language, prompt and keep_alive")
    if data:
        check_media(request)
    fields = read_object(data) if data else Fields({})
    pool: Pool = request.app.state.pool
    options = read_options(fields, pool)
    expect(pool)
    sessions: Sessions = request.app.state.sessions
    session = sessions.start(options, client_of(request.scope))
    return JSONResponse(started(session, sessions))


async def push(request: Request) -> Response:
    text = f"push at most {MAX_PUSH_SECONDS:g} s of samples at once"
    name, data = _named(request), await read_bytes(request, 2 * MAX_PUSH_BYTES, text)
    expect(request.app.state.pool)
    with _using(request, name) as session:
        await session.push(data)
        return JSONResponse(told(session, session.step()))


async def flush(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    with _using(request, _named(request)) as session:
        last = flushed(session, await session.flush())
        sessions.end(session)
        return JSONResponse(last)


async def delete(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    with _using(request, request.path_params["session"]) as session:
        sessions.end(session)
        return JSONResponse({"session": session.name, "status": "deleted"})


def read_options(fields: Fields, pool: Pool, *others: str) -> Options:
    """Raises InvalidRequest naming the field, NotConfigured; ``others`` are read elsewhere."""
    fields.only((*FIELDS, *others))
    language = languages.choose(pool.languages(), fields.text("language"))
    prompt = fields.text("prompt", limit=PROMPT_CHARS)
    return Options(language, prompt, keep_alive.read(fields))


def expect(pool: Pool) -> None:
    """Sound is coming: fetch the model's files ahead. Raises NotConfigured."""
    pool.rung("asr")
    pool.expect(("asr",))


def started(session: Session, sessions: Sessions) -> dict[str, Any]:
    return {"session": session.name, "status": "started", "expires_after": sessions.idle_seconds}


def told(session: Session, step: Step) -> dict[str, Any]:
    return {"session": session.name, **dataclasses.asdict(step)}


def flushed(session: Session, step: Step) -> dict[str, Any]:
    return told(session, step) | {"duration": round(session.duration, 2)}


def _named(request: Request) -> str:
    """The session that the header or the query names."""
    query: Mapping[str, str] = request.query_params
    Fields(dict(query)).only(("session",))
    names = {one for one in (request.headers.get(HEADER), query.get("session")) if one}
    if len(names) > 1:
        raise InvalidRequest(f"the header {HEADER} and the query name different sessions; give one", param="session")
    return names.pop() if names else DEFAULT


def _using(request: Request, name: str) -> AbstractContextManager[Session]:
    sessions: Sessions = request.app.state.sessions
    if name == DEFAULT and any(one in request.headers for one in OF_PROXIES):
        text = "is required behind a proxy, where all clients have one address: start one with POST"
        raise InvalidRequest(f"session {text} /v1/transcribe/stream", param="session")
    return sessions.using(name, client_of(request.scope))
