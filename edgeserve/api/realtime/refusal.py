"""Errors of this dialect: those of all routes, and some with OpenAI's own codes."""

from __future__ import annotations

from typing import Any, Self

from edgeserve.api import failures
from edgeserve.errors import EdgeserveError, InvalidRequest


class Refused(InvalidRequest):
    """An event of a client that does not fit the state of the session. ``name``: OpenAI's code, which clients know."""

    name = InvalidRequest.code

    @classmethod
    def by(cls, name: str, message: str, param: str | None = None) -> Self:
        error = cls(message, param=param)
        error.name = name
        return error


def words(error: EdgeserveError) -> dict[str, Any]:
    """The error as an object of an event: type, code, message, param."""
    told: dict[str, Any] = failures.body(error)["error"]
    return told | {"code": error.name} if isinstance(error, Refused) else told
