"""The routes of live transcription over HTTP."""

from __future__ import annotations

from typing import Any

from edgeserve.api.entry import Entry, Link

HEADER = "X-Session-Id"
SESSION: dict[str, Any] = {"asked": "SessionQuery", "headers": (("session", HEADER),)}
PUSH, FLUSH = "/v1/transcribe/push", "/v1/transcribe/flush"
LIVE_SESSION = "/v1/transcribe/stream/{session}"
AFTER_START = (
    Link("push", "POST", PUSH, "/session", "query", "session"),
    Link("flush", "POST", FLUSH, "/session", "query", "session"),
    Link("drop", "DELETE", LIVE_SESSION, "/session", "path", "session"),
)
SESSIONS = (
    Entry(
        "POST",
        "/v1/transcribe/stream",
        "Start a live transcription",
        "edgeserve.api.live.http:start",
        "Live",
        optional=True,
        links=AFTER_START,
    ),
    Entry("DELETE", LIVE_SESSION, "End a live transcription and drop its words", "edgeserve.api.live.http:delete"),
    Entry(
        "POST",
        PUSH,
        "Sound for a live transcription",
        "edgeserve.api.live.http:push",
        "Samples",
        optional=True,
        **SESSION,
    ),
    Entry("POST", FLUSH, "End a live transcription with its last words", "edgeserve.api.live.http:flush", **SESSION),
)
