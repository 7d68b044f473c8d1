"""Headers that say how an answer differs from the request: fields left out, and keywords of schemas left out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.types import Scope

from edgeserve import logs

log = logging.getLogger("edgeserve.api")

IGNORED = "X-Edgeserve-Ignored"
"""Unknown fields of the request."""
LOOSENED = "X-Edgeserve-Loosened"
"""Keywords of schemas that the answer may break."""
KEY = "edgeserve.notes"
"""Key in a request's scope: names by header."""
MOST, LONGEST = 16, 120
"""Names in one header, and characters of a name as the header writes it."""
SAFE = "[]._-/$:@"
MORE = "..."
EMPTY = '""'
"""A name without a character."""


def ignored(request: Request, names: Iterable[str]) -> None:
    """Note fields that the server does not know: in a header of the answer, and in one log line."""
    if listed := list(names):
        told = logs.shortened(", ".join(listed), 1000)
        log.warning("%s: ignored unknown fields: %s", request.url.path, told)
        _add(request, IGNORED, listed)


def loosened(request: Request, names: Iterable[str]) -> None:
    """Note keywords of schemas that the grammar of the answer leaves out."""
    if listed := list(names):
        told = logs.shortened(", ".join(listed), 1000)
        log.warning("%s: the answer may break these keywords of its schema: %s", request.url.path, told)
        _add(request, LOOSENED, listed)


def headers(scope: Scope) -> Iterator[tuple[str, str]]:
    """The headers of everything noted for this request, in visible ASCII."""
    for header, names in scope.get(KEY, {}).items():
        unique = list(dict.fromkeys(names))
        more = [MORE] if len(unique) > MOST else []
        yield header, ", ".join([*map(_written, unique[:MOST]), *more])


def _add(request: Request, header: str, names: Iterable[str]) -> None:
    request.scope.setdefault(KEY, {}).setdefault(header, []).extend(names)


def _written(name: str) -> str:
    """The name in characters that a header can hold, percent-encoded where it has others."""
    text = quote(name[:LONGEST], safe=SAFE, errors="replace") or EMPTY  # a header may not end in a space
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}{MORE}"
