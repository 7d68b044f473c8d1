"""Which language a request says is spoken; what the model lacks is refused before it is loaded, where that is known."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.errors import InvalidRequest


def choose(known: Sequence[str], code: str | None) -> str | None:
    """The code; None: the model recognises it. ``known``: all codes, none where the model does not tell them ahead.

    Raises InvalidRequest with all codes.
    """
    if not code or not known or code in known:
        return code or None
    raise InvalidRequest(f"unknown language {code!r}; this model knows {', '.join(sorted(known))}", param="language")
