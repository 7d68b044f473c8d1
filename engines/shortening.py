"""Conversations that are too long for the context: the oldest turns are left out until the rest fits."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TypeVar

from edgeserve.errors import ContextOverflow
from edgeserve.messages import ChatRequest

ROOM_SHARE = 4
"""A conversation that is shortened leaves this part of the context to the answer, or as much as the answer may take."""

TRIED = 8192
"""Messages that a search may hand to ``attempt``, each as often as it does. To render so many takes a second, and
other clients' long conversations wait meanwhile."""

TRIED_TEXT = 48
"""Characters that a search may hand to ``attempt``, for each token of the context. A text has some 5 characters a
token, and a search makes some ten attempts; white space has 64, and took minutes."""

T = TypeVar("T")


def shortened(request: ChatRequest, attempt: Callable[[ChatRequest, int], T], limit: int) -> T:
    """The result of ``attempt`` for the request, without its oldest turns where it may be truncated and is too long.

    System messages stay, and the rest begins with a message of the user: templates want that, and no result loses its
    call. ``attempt`` gets a request and a number of tokens at most, and raises ContextOverflow for a longer one.
    Raises ContextOverflow where even the last turn is too long.

    As many turns stay as fit; fewer where the search ends at ``TRIED`` or ``TRIED_TEXT``.
    """
    if not request.truncate:
        return attempt(request, limit)
    room = limit - min(limit // ROOM_SHARE, request.max_tokens or limit)
    with contextlib.suppress(ContextOverflow):
        return attempt(request, room)  # the whole conversation, which most often fits
    starts = _starts(request)
    found: T | None = None
    # From the last turn on, twice as many each time: most of a long conversation is never rendered again.
    fit, over, turns, left, text = 0, len(starts), 1, TRIED, TRIED_TEXT * limit
    tools = sum(one.size for one in request.tools)
    while over - fit > 1 and left > 0 and text > 0:
        rest = _from(request, starts[-turns])
        left, text = left - len(rest.messages), text - tools - sum(one.size for one in rest.messages)
        try:
            found, fit = attempt(rest, room), turns
        except ContextOverflow:
            over = turns
        turns = min(2 * fit, (fit + over) // 2)
    return attempt(_from(request, starts[-1]), limit) if found is None else found


def _starts(request: ChatRequest) -> list[int]:
    """Messages with which the rest may begin; the first of them leaves nothing out."""
    said = [number for number, one in enumerate(request.messages) if one.role == "user"]
    return [0, *said[1:]]


def _from(request: ChatRequest, start: int) -> ChatRequest:
    kept = [one for number, one in enumerate(request.messages) if number >= start or one.role == "system"]
    return dataclasses.replace(request, messages=tuple(kept))
