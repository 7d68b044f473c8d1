"""The shape of errors in Ollama's dialect: ``{"error": "a sentence"}``. This module imports nothing of the server."""

from __future__ import annotations

from typing import Any

PATHS = "/api/"
"""Beginning of the paths whose errors have this shape."""

SCHEMA = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
"""The shape as a JSON schema."""


def body(message: str) -> dict[str, Any]:
    return {"error": message}
