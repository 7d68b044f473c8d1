"""Long prompts of a client, which are read one after the other.

A batch reads the oldest of its prompts, and the shortest beside it. The others would wait with a slot, and count as
answers under way. So another model waited for all of them to be read and answered, up to four for each client.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgeserve.engine_abilities import prompt_tokens
from edgeserve.messages import ChatRequest
from edgeserve.residency.work import Work, size_of_chat

LONG_PROMPT = 512
"""Tokens of a prompt that take a small box a few seconds. A shorter one waits for no other."""
LONGEST = 1 << 13
"""Tokens from which all prompts count alike that are not counted: a longer one may be shortened to as many."""
PICTURE = 1024
"""Tokens for which a picture counts."""
CHARACTERS = 4
"""Characters of a token, where nobody has counted. Digits, and what few languages have, take a token each or more."""


def size_of(work: Work) -> int:
    """Tokens of a long prompt of a chat; 0 for a short one, one that nobody waits for, and other requests."""
    request = work.request
    if not isinstance(request, ChatRequest) or request.ahead or request.count == "only":
        return 0
    if work.whole:
        return LONGEST  # nobody could count it: a smaller context does not hold it
    guess = size_of_chat(request) // CHARACTERS + PICTURE * len(request.images)
    size = prompt_tokens(work.prepared) or min(guess, LONGEST)
    return size if size >= LONG_PROMPT else 0


class Reading:
    """The prompts that answers under way have still to read."""

    def __init__(self, under_way: Iterable[Work]) -> None:
        self._unread = [work for work in under_way if work.reads]

    def leaves_turn(self, work: Work) -> bool:
        """Whether a prompt would be read now: no long one of its client is under way, or all are twice as long.

        One whose reader has no room may not go on at all, and keeps only further answers to the same reader waiting.
        """
        own = (one for one in self._unread if one.place.groups[-1] == work.place.groups[-1])
        return all(2 * work.prompt < one.prompt for one in own if one.place is work.place or one.room())
