"""Errors of this dialect: a code of its own, and the event that the client sent."""

from __future__ import annotations

from typing import Any

from edgeserve.api import failures
from edgeserve.errors import EdgeserveError, InvalidRequest


class Refused(InvalidRequest):
    """A client's event that does not fit the state of the session. ``name``: OpenAI's code, which clients know."""

    def __init__(self, name: str, message: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.name = name


def words(error: EdgeserveError) -> dict[str, Any]:
    """The error as events tell it: type, code, message, param."""
    told: dict[str, Any] = failures.body(error)["error"]
    return told | {"code": error.name} if isinstance(error, Refused) else told
