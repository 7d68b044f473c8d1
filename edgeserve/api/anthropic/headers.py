"""Headers of Anthropic's clients."""

from __future__ import annotations

from starlette.types import Scope

from edgeserve.api.anthropic.failure import PATHS

VERSION = b"anthropic-version"
"""Every client of the dialect sends it. Its value changes nothing."""
REQUEST_ID = "request-id"
"""The header in which the clients look for the id of their request."""


def speaks(scope: Scope) -> bool:
    """Whether the client speaks Anthropic's dialect."""
    return scope["path"].startswith(PATHS) or any(name == VERSION for name, _ in scope["headers"])
