"""An error over HTTP, whatever shape the dialect of its route gives it."""

from __future__ import annotations

from typing import Any

import httpx


def told(answer: httpx.Response) -> dict[str, Any]:
    """``message``, and ``code`` and ``param`` where the dialect has them, else None. Ollama's error is a text."""
    error = answer.json()["error"]
    return {"code": None, "param": None} | ({"message": error} if isinstance(error, str) else error)


def names(answer: httpx.Response, field: str) -> bool:
    """Whether the error names the field, or one inside it."""
    error = told(answer)
    return field in error["message"] if error["param"] is None else error["param"].startswith(field)
