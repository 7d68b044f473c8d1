"""The language of a recording. An unknown one is refused before the model is loaded, where its languages are known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgeserve.errors import InvalidRequest

WORDS = "of the speech, ISO 639-1 with or without a region; left out or auto: the model recognises it"
"""Describes the field ``language``."""
AUTO = "auto"
REGION = re.compile(r"[-_].*", re.DOTALL)
"""Script and region of a tag (RFC 5646), as in en-US, zh_Hant_TW."""


def choose(known: Sequence[str], code: str) -> str | None:
    """The code without its region; None where it is empty or ``AUTO``, and the model shall recognise the language.

    ``known`` holds the model's codes, empty where the model does not list its languages. Raises InvalidRequest
    with all codes.
    """
    if not code or code.lower() == AUTO:
        return None
    short = code if code in known else REGION.sub("", code.lower())
    if not known or short in known:
        return short or None
    raise InvalidRequest(f"unknown language {code!r}; this model knows {', '.join(sorted(known))}", param="language")
