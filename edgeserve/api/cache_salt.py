"""The salt of a request. Caches of past prompts serve requests of the same salt only."""

from __future__ import annotations

import hashlib

from starlette.requests import HTTPConnection

from edgeserve.api.auth import keys

LIMIT = 256
"""Characters of ``prompt_cache_key``."""


def salt(request: HTTPConnection, name: str) -> str:
    """A hash of the client's API key and its ``prompt_cache_key``; empty where it gives neither."""
    key = b"\n".join(keys(request.scope)) or request.headers.get("authorization", "").encode("latin-1", "replace")
    if not key and not name:
        return ""
    # The length keeps a key that ends in the name apart from a shorter key with a longer name.
    return hashlib.sha256(len(key).to_bytes(4, "big") + key + name.encode()).hexdigest()
