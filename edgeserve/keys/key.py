"""A named key: its scope, its limits, and the hash of its token. The token itself is kept nowhere."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import field
from typing import Literal

from edgeserve.dataclass import dataclass

Scope = Literal["use", "admin"]
SCOPES: tuple[Scope, ...] = ("use", "admin")
"""``use`` asks models; ``admin`` also manages the server."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PREFIX = "es_"
"""Beginning of each token, by which people and scanners of secrets know it."""
TOKEN_BYTES = 32
"""Random bytes of a token. Nobody guesses 256 bits, so one round of SHA-256 protects them."""
GROUP_CHARS = 16
MOST = 10_000
"""Largest limit of a key."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key.

    Fields:
        digest      SHA-256 of the token, in hexadecimal digits
        per_minute  requests a minute; 0: no limit
        at_once     requests that run at once; 0: no limit
        created     day on which the key was made, such as "2026-05-01"
    """

    name: str
    digest: str = field(repr=False)
    scope: Scope = "use"
    per_minute: int = 0
    at_once: int = 0
    created: str = ""

    @property
    def group(self) -> str:
        """The name by which clients of this key are counted together."""
        return self.digest[:GROUP_CHARS]


def make_token() -> str:
    """A new token: 46 visible characters."""
    return PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def digest_of(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()
