"""The table of routes, and the middleware around them."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from edgeserve.api import failures, later, upgrade
from edgeserve.api.anthropic.entries import ANTHROPIC
from edgeserve.api.auth import Door, for_owner
from edgeserve.api.cors import Cors, Preflight
from edgeserve.api.entry import Entry, Link
from edgeserve.api.inflate import Inflate
from edgeserve.api.limits import BodyLimit, Limits, limits_of
from edgeserve.api.live.entries import SESSIONS
from edgeserve.api.llama_server.entries import LLAMA_SERVER
from edgeserve.api.manage.entries import MANAGE
from edgeserve.api.native.entries import NATIVE
from edgeserve.api.ollama.entries import OLLAMA
from edgeserve.api.openai.entries import OPENAI
from edgeserve.api.origin import Rules
from edgeserve.api.paths import Paths, without_prefix
from edgeserve.api.request_id import RequestId, Routed
from edgeserve.api.rerank.entries import RERANK
from edgeserve.api.responses.entries import RESPONSES
from edgeserve.api.web import public
from edgeserve.errors import EdgeserveError
from edgeserve.figures.figures import Figures
from edgeserve.figures.spans import Traces
from edgeserve.jobs import CHAT
from edgeserve.keys.ring import Keyring
from edgeserve.memory.traffic import Traffic


async def describe(request: Request) -> Response:
    return Response(await later.IMPORTS.run(_description, limits_of(request)), media_type="application/json")


@functools.lru_cache(maxsize=1)
def _description(limits: Limits) -> bytes:
    """The document, made once. It needs the records of all routes, so it imports all of their rooms."""
    from edgeserve.api import openapi

    return bytes(JSONResponse(openapi.document(ENTRIES, limits)).body)


MODEL = "/v1/models/{model:path}"
FIRST_MODEL = Link("first", "GET", MODEL, "/data/0/id", "path", "model")

ENTRIES = (
    Entry(
        "GET",
        "/",
        "The page for browsers, else where things are; for probes the text that Ollama answers",
        "edgeserve.api.health:root",
        also=("text/plain", public.HTML),
    ),
    Entry("GET", "/v1/health", "Configured engines and their rungs", "edgeserve.api.health:health"),
    Entry("GET", "/health/live", "Whether the process answers", "edgeserve.api.health:live"),
    Entry("GET", "/health/ready", "Whether the server takes requests", "edgeserve.api.health:ready"),
    Entry(
        "GET",
        "/metrics",
        "Figures for Prometheus",
        "edgeserve.api.metrics.scrape:scrape",
        media="edgeserve.api.metrics.scrape:MEDIA_TYPES",
    ),
    Entry("GET", "/version", "The server's version", "edgeserve.api.health:version"),
    Entry(
        "GET",
        "/v1/models",
        "Models served, in both dialects' shapes",
        "edgeserve.api.models:list_models",
        links=(FIRST_MODEL,),
    ),
    Entry("GET", MODEL, "One model", "edgeserve.api.models:get_model"),
    *NATIVE,
    *SESSIONS,
    *OPENAI,
    *RERANK,
    Entry(
        "GET",
        "/lora-adapters",
        "Adapters of a language model, as llama-server lists them",
        "edgeserve.api.adapters:list_adapters",
    ),
    Entry("GET", "/memory/stats", "Memory, budget and pressure", "edgeserve.api.admin:stats"),
    Entry("GET", "/memory/models", "Engines and what they hold", "edgeserve.api.admin:list_models"),
    Entry(
        "GET",
        "/memory/feed",
        "The memory timeline: the past, then each second and each happening",
        "edgeserve.api.feed:feed",
        answer="text/event-stream",
        asked="FeedQuery",
    ),
    Entry("GET", "/memory/evictions", "Steps down: expected and returned", "edgeserve.api.admin:evictions"),
    Entry("GET", "/memory/offloaded", "Engines that are warm", "edgeserve.api.admin:offloaded"),
    Entry("GET", "/memory/fragmentation", "Memory held and not used", "edgeserve.api.admin:fragmentation"),
    Entry("GET", "/memory/health", "Pressure in one word", "edgeserve.api.admin:health"),
    Entry("POST", "/memory/evict/{engine}", "Close an engine", "edgeserve.api.admin:evict", owner=True),
    Entry("POST", "/memory/preload", "Load engines", "edgeserve.api.admin:preload", "Preload", owner=True),
    Entry("POST", "/memory/defragment", "Return free heap pages", "edgeserve.api.admin:defragment", owner=True),
    Entry("GET", "/cluster/status", "Memory, pressure and models of all peers", "edgeserve.api.cluster:status"),
    Entry("GET", "/slots", "Slots of a chat model", "edgeserve.api.slots:list_slots", asked="SlotsQuery", owner=True),
    Entry(
        "POST",
        "/slots/{slot}",
        "Save, restore or erase the conversation of a slot",
        "edgeserve.api.slots:parse",
        "SlotFile",
        jobs=CHAT,
        optional=True,
        asked="ActionQuery",
        owner=True,
    ),
    *ANTHROPIC,
    *RESPONSES,
    *OLLAMA,
    *LLAMA_SERVER,
    *MANAGE,
    Entry("GET", "/openapi.json", "This document", "edgeserve.api.routes:describe"),
)
"""All routes with an OpenAPI description."""


LIVE = "/v1/transcribe/live"
"""The WebSocket of live transcription. OpenAPI describes no WebSockets; docs/api/live.md does."""
OVER_HTTP = "send sound over HTTP to POST /v1/transcribe/stream, push and flush"
REALTIME = "/v1/realtime"
"""The WebSocket of conversations (docs/api/realtime.md)."""
IN_TURN = "ask POST /v1/audio/transcriptions, /v1/chat/completions and /v1/audio/speech in turn"


def routes() -> list[BaseRoute]:
    described = (
        Route(one.path, for_owner(one.endpoint) if one.owner else one.endpoint, methods=[one.method]) for one in ENTRIES
    )
    return [
        *described,
        WebSocketRoute(LIVE, later.at("edgeserve.api.live.socket:endpoint")),
        Route(LIVE, upgrade.required(OVER_HTTP), include_in_schema=False),
        WebSocketRoute(REALTIME, later.at("edgeserve.api.realtime.socket:endpoint")),
        Route(REALTIME, upgrade.required(IN_TURN), include_in_schema=False),
        Route(public.PATH, later.at("edgeserve.api.web.page:file"), include_in_schema=False),
        Route(
            "/v1/moderations",
            later.at("edgeserve.api.openai.moderations:refuse"),
            methods=["POST"],
            include_in_schema=False,
        ),
        Route(
            "/lora-adapters", later.at("edgeserve.api.adapters:set_adapters"), methods=["POST"], include_in_schema=False
        ),
    ]


def middleware(
    limits: Limits, rules: Rules, ring: Keyring, figures: Figures, traces: Traces, traffic: Traffic
) -> list[Middleware]:
    """Outermost first."""
    door = Middleware(Door, ring=ring, rules=rules)
    pages = (Middleware(Cors, rules=rules), Middleware(Preflight, rules=rules)) if rules.pages else ()
    paths = Middleware(Paths, short=without_prefix({LIVE, REALTIME, *(one.path for one in ENTRIES)}))
    body = Middleware(BodyLimit, limit=limits.max_body_bytes, patience=limits.body_seconds, traffic=traffic)
    outer = Middleware(RequestId, figures=figures, traces=traces)
    return [*pages[:1], outer, *pages[1:], paths, door, body, Middleware(Inflate), Middleware(Routed)]


def exception_handlers() -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    return {EdgeserveError: failures.on_error, HTTPException: failures.on_http, ClientDisconnect: failures.on_gone}
