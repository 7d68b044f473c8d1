"""The salt of a request. Caches of past prompts serve requests of the same salt only."""

from __future__ import annotations

import hashlib

from starlette.requests import HTTPConnection

from edgeserve.api.auth import client_of, keys

LIMIT = 256
"""Characters of ``prompt_cache_key``."""


CLIENT_CHARS = 16


def salt(request: HTTPConnection, name: str) -> str:
    """A hash of the client, whose share of the caches the salt takes, a slash, and the scope: prompts of one share.

    The client is the key that the server knows it by, else its network. The scope is empty where the client gives
    neither a key nor ``name``: such clients share. Else it is the client's hash again, a slash, and a hash of its API
    key and its ``prompt_cache_key``. Where the server asks for no key, a client may send any.
    """
    mine = client(request)
    key = b"\n".join(keys(request.scope)) or request.headers.get("authorization", "").encode("latin-1", "replace")
    if not key and not name:
        return f"{mine}/"
    # The length keeps a key that ends in the name apart from a shorter key with a longer name.
    given = hashlib.sha256(len(key).to_bytes(4, "big") + key + name.encode()).hexdigest()
    return f"{mine}/{mine}/{given}"


def client(request: HTTPConnection) -> str:
    """The first part of all salts of a client."""
    group = "".join(client_of(request.scope).owner.group)
    return hashlib.sha256(group.encode()).hexdigest()[:CLIENT_CHARS]
