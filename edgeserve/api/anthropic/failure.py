"""The shape of errors in Anthropic's dialect: ``{"type": "error", "error": {…}, "request_id": …}``."""

from __future__ import annotations

from typing import Any

from edgeserve import errors, logs
from edgeserve.errors import ContextOverflow, EdgeserveError

PATHS = "/v1/messages"
"""Beginning of the paths whose errors have this shape."""

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
"""Types of errors by their status. Any other status below 500 is an invalid request."""
OVERLOADED = (errors.Busy, errors.ShuttingDown, errors.MemoryPressure, errors.Restarting)
"""Errors after which the same request may succeed."""

SCHEMA = {
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message", "code", "param"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "code": {"type": "string"},
                "param": {"type": ["string", "null"]},
            },
        },
        "request_id": {"type": "string"},
    },
}
"""The shape as a JSON schema. ``code`` and ``param`` are this server's own."""


def body(error: EdgeserveError, status: int) -> dict[str, Any]:
    """The error's body. Its message and param can be written."""
    message = error.message
    if isinstance(error, ContextOverflow) and error.figures:
        tokens, most = error.figures
        # Anthropic's own words, which clients look for, and read the numbers from, to shorten the conversation.
        message = f"prompt is too long: {tokens} tokens > {most} maximum; raise context in models.toml for more"
    told = {"type": _type(error, status), "message": message, "code": error.code, "param": error.param}
    return {"type": "error", "error": told, "request_id": logs.request_id.get()}


def _type(error: EdgeserveError, status: int) -> str:
    if status >= 500:
        return "overloaded_error" if isinstance(error, OVERLOADED) else "api_error"
    return TYPES.get(status, "invalid_request_error")
