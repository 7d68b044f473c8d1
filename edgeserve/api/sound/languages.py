"""The language of a recording. An unknown one is refused before the model is loaded, where its languages are known."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.errors import InvalidRequest

WORDS = "of the speech, ISO 639-1; left out: the model recognises it"
"""Describes the field ``language``."""


def choose(known: Sequence[str], code: str) -> str | None:
    """The code; None where it is empty, and the model shall recognise the language.

    ``known`` holds the model's codes, none of them where the model does not tell them ahead. Raises InvalidRequest
    with all codes.
    """
    if not code or not known or code in known:
        return code or None
    raise InvalidRequest(f"unknown language {code!r}; this model knows {', '.join(sorted(known))}", param="language")
