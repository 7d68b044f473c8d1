"""Long prompts of a client, which are read one after the other.

A batch reads the oldest of its prompts, and the shortest beside it. The others would wait with a slot, and count as
answers under way. So another model waited for all of them to be read and answered, up to four for each client.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from edgeserve.messages import ChatRequest, Request
from edgeserve.residency.work import Work, size_of_chat

LONG_PROMPT = 2048
"""Characters of a prompt, some 500 tokens, that take a small box a few seconds. A shorter one waits for no other."""
LONGEST = 1 << 15
"""Characters from which all prompts count alike: a longer one may be shortened to as many tokens as another."""
PICTURE = 4096
"""Characters for which a picture counts: about as many tokens as it has."""


def size_of(request: Request) -> int:
    """Characters of a long prompt of a chat; 0 for a short one, one that nobody waits for, and other requests."""
    if not isinstance(request, ChatRequest) or request.ahead or request.count == "only":
        return 0
    size = size_of_chat(request) + PICTURE * len(request.images)
    return min(size, LONGEST) if size >= LONG_PROMPT else 0


class Reading:
    """The prompts that answers under way have still to read. One whose reader has no room may not go on at all."""

    def __init__(self, under_way: Iterable[Work]) -> None:
        self._shortest: dict[tuple[str, ...], int] = {}
        for work in under_way:
            if work.prompt and not work.told and work.room():
                client = work.place.groups[-1]
                self._shortest[client] = min(work.prompt, self._shortest.get(client, work.prompt))

    def leaves_turn(self, work: Work) -> bool:
        """Whether a prompt would be read now: no long one of its client is under way, or all are twice as long."""
        return 2 * work.prompt < self._shortest.get(work.place.groups[-1], math.inf)
