"""Whose caches of past prompts may serve a request: those of the same key, and of the same ``prompt_cache_key``."""

from __future__ import annotations

import hashlib

from starlette.requests import Request

from edgeserve.api.fields import Fields

FIELD = "prompt_cache_key"
LIMIT = 256
"""Characters."""
SCHEMA = {
    "description": "caches of past prompts serve requests of the same key and the same value only",
    "type": "string",
    "maxLength": LIMIT,
}


def read(request: Request, fields: Fields) -> str:
    """A hash of the API key that the client presents and of the field; empty where it gives neither. Raises
    InvalidRequest."""
    key = request.headers.get("authorization", "").encode("latin-1", "replace")
    name = (fields.text(FIELD, limit=LIMIT) or "").encode()
    if not key and not name:
        return ""
    # The length keeps a key that ends in the name apart from a shorter key with a longer name.
    return hashlib.sha256(len(key).to_bytes(4, "big") + key + name).hexdigest()
