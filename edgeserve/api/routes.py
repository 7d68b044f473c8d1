"""The table of routes, and the middleware around them."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from edgeserve.api import adapters, admin, failures, health, models, slots, sse, upgrade
from edgeserve.api.anthropic.entries import ANTHROPIC
from edgeserve.api.auth import KeyRequired, SameSite, for_owner
from edgeserve.api.cors import Cors, Preflight
from edgeserve.api.entry import Entry, Link
from edgeserve.api.inflate import Inflate
from edgeserve.api.limits import BodyLimit, Limits, limits_of
from edgeserve.api.line import answering
from edgeserve.api.live import http as live
from edgeserve.api.live import socket as live_socket
from edgeserve.api.llama_server.entries import LLAMA_SERVER
from edgeserve.api.manage.entries import MANAGE
from edgeserve.api.native import chat as native
from edgeserve.api.native import sound, vision
from edgeserve.api.ollama.entries import OLLAMA
from edgeserve.api.openai import audio, chat, completions, embeddings, moderations, speech
from edgeserve.api.origin import Rules
from edgeserve.api.paths import Paths, without_prefix
from edgeserve.api.realtime import socket as realtime
from edgeserve.api.request_id import RequestId
from edgeserve.api.rerank import request as ranking
from edgeserve.api.rerank import score as scoring
from edgeserve.api.responses.entries import RESPONSES
from edgeserve.api.sound import transcripts, voices
from edgeserve.api.web import page
from edgeserve.audio import encode
from edgeserve.errors import EdgeserveError
from edgeserve.jobs import CHAT


async def describe(request: Request) -> Response:
    return Response(_description(limits_of(request)), media_type="application/json")


@functools.lru_cache(maxsize=1)
def _description(limits: Limits) -> bytes:
    """The document, made once: making it holds the event loop for some milliseconds."""
    from edgeserve.api import openapi

    return bytes(JSONResponse(openapi.document(ENTRIES, limits)).body)


SSE, WAV = sse.MEDIA_TYPE, "audio/wav"
STREAMED: dict[str, Any] = {"also": (SSE,)}
SESSION: dict[str, Any] = {"query": live.SessionQuery, "headers": (("session", live.HEADER),)}
PUSH, FLUSH = "/v1/transcribe/push", "/v1/transcribe/flush"
LIVE_SESSION = "/v1/transcribe/stream/{session}"
MODEL = "/v1/models/{model:path}"
AFTER_START = (
    Link("push", "POST", PUSH, "/session", "query", "session"),
    Link("flush", "POST", FLUSH, "/session", "query", "session"),
    Link("drop", "DELETE", LIVE_SESSION, "/session", "path", "session"),
)
FIRST_MODEL = Link("first", "GET", MODEL, "/data/0/id", "path", "model")

ENTRIES = (
    Entry(
        "GET",
        "/",
        "The page for browsers, else where things are; for probes the text that Ollama answers",
        health.root,
        also=("text/plain", page.HTML),
    ),
    Entry("GET", "/v1/health", "Configured engines and their rungs", health.health),
    Entry("GET", "/version", "The server's version", health.version),
    Entry(
        "GET",
        "/v1/models",
        "Models served, in both dialects' shapes",
        models.list_models,
        links=(FIRST_MODEL,),
    ),
    Entry("GET", MODEL, "One model", models.get_model),
    Entry("POST", "/v1/chat", "Answer a prompt or conversation", answering(native.chat, *CHAT), native.Chat),
    Entry(
        "POST",
        "/v1/chat/stream",
        "Answer a prompt or conversation, token by token",
        answering(native.chat_stream, *CHAT),
        native.Chat,
        SSE,
    ),
    Entry("POST", "/v1/chat/soap", "SOAP note of a consultation", answering(native.soap, *CHAT), native.Soap),
    Entry("POST", "/v1/chat/summarize", "Summary of a text", answering(native.summarize, *CHAT), native.Summarize),
    Entry("POST", "/v1/vision/analyze", "Describe an image", answering(vision.analyze, "vision"), vision.Image),
    Entry("POST", "/v1/vision/ocr", "Read the text in an image", answering(vision.ocr, "vision"), vision.Image),
    Entry("POST", "/v1/transcribe/file", "Transcribe a file", answering(sound.transcribe, "asr"), sound.Recording),
    Entry(
        "POST",
        "/v1/transcribe/stream",
        "Start a live transcription",
        live.start,
        live.Live,
        optional=True,
        links=AFTER_START,
    ),
    Entry("DELETE", LIVE_SESSION, "End a live transcription and drop its words", live.delete),
    Entry("POST", PUSH, "Sound for a live transcription", live.push, live.Samples, optional=True, **SESSION),
    Entry("POST", FLUSH, "End a live transcription with its last words", live.flush, **SESSION),
    Entry("POST", "/v1/tts/synthesize", "Say a text", answering(sound.synthesize, "tts"), sound.Speak, WAV),
    Entry("GET", "/v1/tts/voices", "Voices, the default first", voices.voices),
    Entry("GET", "/v1/audio/voices", "Voices as Open WebUI lists them", voices.list_voices),
    Entry("GET", "/v1/audio/models", "Models that speak", voices.list_models),
    Entry(
        "POST",
        "/v1/chat/completions",
        "OpenAI chat",
        answering(chat.chat, *CHAT),
        chat.ChatCompletion,
        files=True,
        **STREAMED,
    ),
    Entry(
        "POST",
        "/v1/completions",
        "OpenAI completions",
        answering(completions.completions, *CHAT),
        completions.RawCompletion,
        **STREAMED,
    ),
    Entry(
        "POST",
        "/v1/embeddings",
        "Texts as vectors",
        answering(embeddings.embeddings, *embeddings.JOBS),
        embeddings.Embedding,
    ),
    *(
        Entry("POST", path, "Documents by relevance", answering(ranking.rerank, *ranking.JOBS), ranking.Rerank)
        for path in ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank")
    ),
    *(
        Entry("POST", path, "Relevance of pairs of texts", answering(scoring.score, *ranking.JOBS), scoring.Score)
        for path in ("/v1/score", "/score")
    ),
    Entry(
        "POST",
        "/v1/audio/transcriptions",
        "OpenAI transcription of a file",
        answering(audio.transcriptions, "asr"),
        audio.Transcription,
        also=(*transcripts.MEDIA_TYPES[1:], SSE),
    ),
    Entry(
        "POST",
        "/v1/audio/translations",
        "OpenAI translation of speech into English",
        answering(audio.translations, "asr"),
        audio.Translation,
        also=transcripts.MEDIA_TYPES[1:],
    ),
    Entry(
        "POST",
        "/v1/audio/speech",
        "OpenAI speech; mp3 unless the request names another format",
        answering(speech.speech, "tts"),
        speech.Speech,
        encode.MEDIA_TYPES[0],
        also=(*encode.MEDIA_TYPES[1:], SSE),
    ),
    Entry("GET", "/lora-adapters", "Adapters of a language model, as llama-server lists them", adapters.list_adapters),
    Entry("GET", "/memory/stats", "Memory, budget and pressure", admin.reading("stats")),
    Entry("GET", "/memory/models", "Engines and what they hold", admin.list_models),
    Entry("GET", "/memory/evictions", "Steps down: expected and returned", admin.reading("evictions")),
    Entry("GET", "/memory/offloaded", "Engines that are warm", admin.reading("offloaded")),
    Entry("GET", "/memory/fragmentation", "Memory held and not used", admin.reading("fragmentation")),
    Entry("GET", "/memory/health", "Pressure in one word", admin.reading("health")),
    Entry("POST", "/memory/evict/{engine}", "Close an engine", admin.evict, owner=True),
    Entry("POST", "/memory/preload", "Load engines", admin.preload, admin.Preload, owner=True),
    Entry("POST", "/memory/defragment", "Return free heap pages", admin.reading("defragment_by_hand"), owner=True),
    Entry("GET", "/slots", "Slots of a chat model", slots.list_slots, query=slots.SlotsQuery, owner=True),
    Entry(
        "POST",
        "/slots/{slot}",
        "Save, restore or erase the conversation of a slot",
        answering(slots.parse, *CHAT),
        slots.SlotFile,
        optional=True,
        query=slots.ActionQuery,
        owner=True,
    ),
    *ANTHROPIC,
    *RESPONSES,
    *OLLAMA,
    *LLAMA_SERVER,
    *MANAGE,
    Entry("GET", "/openapi.json", "This document", describe),
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
        WebSocketRoute(LIVE, live_socket.endpoint),
        Route(LIVE, upgrade.required(OVER_HTTP), include_in_schema=False),
        WebSocketRoute(REALTIME, realtime.endpoint),
        Route(REALTIME, upgrade.required(IN_TURN), include_in_schema=False),
        Route(page.PATH, page.file, include_in_schema=False),
        Route(moderations.PATH, moderations.refuse, methods=["POST"], include_in_schema=False),
        Route("/lora-adapters", adapters.set_adapters, methods=["POST"], include_in_schema=False),
    ]


def middleware(limits: Limits, rules: Rules) -> list[Middleware]:
    """Outermost first."""
    door = Middleware(KeyRequired, key=limits.api_key) if limits.api_key else Middleware(SameSite, rules=rules)
    pages = (Middleware(Cors, rules=rules), Middleware(Preflight, rules=rules)) if rules.pages else ()
    paths = Middleware(Paths, short=without_prefix({LIVE, REALTIME, *(one.path for one in ENTRIES)}))
    body = Middleware(BodyLimit, limit=limits.max_body_bytes, patience=limits.body_seconds)
    return [*pages[:1], Middleware(RequestId), *pages[1:], paths, door, body, Middleware(Inflate)]


def exception_handlers() -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    return {EdgeserveError: failures.on_error, HTTPException: failures.on_http, ClientDisconnect: failures.on_gone}
