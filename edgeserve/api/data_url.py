"""Data URLs (RFC 2397) in fields of requests."""

from __future__ import annotations

import base64

from edgeserve.errors import InvalidRequest


def decoded(address: str, param: str) -> bytes:
    """The bytes in a data URL, or in base64. Raises InvalidRequest."""
    head, comma, text = address.partition(",")
    if comma and not (head.startswith("data:") and head.endswith(";base64")):
        raise InvalidRequest(f"{param}: expected base64, or data:TYPE;base64,…", param=param)
    try:
        return base64.b64decode(text if comma else head, validate=True)
    except ValueError as error:  # of binascii, and for characters beyond ASCII
        raise InvalidRequest(f"{param}: the data are not base64: {error}", param=param) from None
