"""The renderer of errors: ``{"error": {"message", "type", "code", "param"}}``, or a dialect's own shape by the path."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from edgeserve import errors
from edgeserve.api.anthropic import failure as anthropic
from edgeserve.api.ollama import failure as ollama
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError

STATUS: Mapping[str, int] = MappingProxyType(
    {
        errors.InvalidRequest.code: 400,
        errors.ContextOverflow.code: 400,
        errors.PreviousResponseNotFound.code: 400,
        errors.NotSupported.code: 400,
        errors.Unauthorized.code: 401,
        errors.Forbidden.code: 403,
        errors.NotFound.code: 404,
        errors.ModelNotFound.code: 404,
        errors.NotConfigured.code: 404,  # with 503, SDKs would ask again and again
        errors.SlowReader.code: 408,
        errors.RequestTimeout.code: 408,
        errors.InUse.code: 409,
        errors.TooLarge.code: 413,
        errors.UnsupportedMedia.code: 415,
        errors.TooManyRequests.code: 429,
        errors.Cancelled.code: 499,
        errors.EdgeserveError.code: 500,
        errors.EngineFailure.code: 500,
        errors.Unreachable.code: 500,
        errors.Restarting.code: 503,
        errors.ConfigError.code: 500,
        errors.Busy.code: 503,
        errors.ShuttingDown.code: 503,
        errors.MemoryPressure.code: 503,
        errors.StoreError.code: 503,
        errors.ModelMissing.code: 503,
        errors.ModelUnknown.code: 503,
        errors.ModelDamaged.code: 503,
        errors.ChecksumMismatch.code: 503,
        errors.DiskFull.code: 507,
        errors.SourceUnavailable.code: 503,
        errors.DoesNotFit.code: 507,
    }
)
"""HTTP status by code. Only the log shows 499, nginx's "client closed request"."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A dialect's own shape of errors. ``name`` and ``schema`` are for OpenAPI.

    ``body`` makes it of an error, whose message and param can be written, and of its status.
    """

    name: str
    body: Callable[[EdgeserveError, int], dict[str, Any]]
    schema: Mapping[str, Any]


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        ollama.PATHS: Shape("Ollama", lambda error, status: ollama.body(error.message), ollama.SCHEMA),
        anthropic.PATHS: Shape("Anthropic", anthropic.body, anthropic.SCHEMA),
    }
)
"""Shapes by the beginning of the paths of their dialect."""

INTERNAL = EdgeserveError("an internal error; the server's log tells more under this answer's X-Request-Id")


MAX_MESSAGE, MAX_PARAM = 4000, 400
"""Characters of a message and a param. Both may quote the request."""


def body(error: EdgeserveError, path: str = "") -> dict[str, Any]:
    """The error's body, as the dialect of ``path`` writes it. Characters that UTF-8 cannot hold are escaped."""
    told, status = _told(error), STATUS[error.code]
    for beginning, shape in SHAPES.items():
        if path.startswith(beginning):
            return shape.body(told, status)
    return {"error": {"message": told.message, "type": _type(status), "code": told.code, "param": told.param}}


def _told(error: EdgeserveError) -> EdgeserveError:
    """The error with a message and a param that can be written."""
    param = error.param and _writable(error.param, MAX_PARAM)
    return type(error)(_writable(error.message, MAX_MESSAGE), param=param, figures=error.figures)


def _writable(text: str, limit: int) -> str:
    cut = text if len(text) <= limit else f"{text[:limit]}…"
    return cut.encode(errors="backslashreplace").decode()


def respond(error: EdgeserveError, path: str = "") -> JSONResponse:
    """The answer to a request for ``path``."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body(error, path), STATUS[error.code], headers)


def _type(status: int) -> str:
    """OpenAI's name for a class of errors."""
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    if status < 500:
        return "invalid_request_error"
    return "server_error"


async def on_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, EdgeserveError)  # noqa: S101 - registered for nothing else
    return respond(error, request.scope["path"])


async def on_gone(request: Request, error: Exception) -> JSONResponse:
    """The answer to a client that left while it sent its body. Only the access log shows the answer."""
    return respond(errors.Cancelled("the client went away"), request.scope["path"])


async def on_http(request: Request, error: Exception) -> JSONResponse:
    """The answer to a request that the router or the form parser refuses."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    path = request.scope["path"]
    if error.status_code == 404:
        text = f"there is no route {request.method} {request.url.path}; see GET /openapi.json"
        answer = respond(errors.NotFound(text), path)
    elif error.status_code == 405:
        text = f"{request.url.path} does not take {request.method}"
        answer = JSONResponse(body(errors.InvalidRequest(text), path), 405, error.headers)
    else:
        answer = respond(errors.InvalidRequest(f"the body cannot be read: {error.detail}"), path)
    return answer
