"""Conversations by their id: the protocol sends the last words of the user alone."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from edgeserve.dataclass import dataclass
from edgeserve.messages import Message

MOST = 64
"""Conversations that are kept."""
SECONDS = 600.0
"""Time after its last turn for which a conversation is kept."""
MESSAGES, CHARS = 40, 65_536
"""Messages of one conversation that are kept, and their characters together."""

Key = tuple[str, str]
"""Address of the client, and the conversation's id there."""


@dataclass(frozen=True, slots=True)
class _Kept:
    messages: tuple[Message, ...]
    at: float


class Memory:
    """The turns of conversations, apart by client. One event loop uses the object. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def turns(self, key: Key) -> tuple[Message, ...]:
        """The turns so far; none for a conversation that is new or was forgotten."""
        self._forget()
        kept = self._kept.get(key)
        return kept.messages if kept else ()

    def keep(self, key: Key, messages: tuple[Message, ...]) -> None:
        """Keep the latest turns that fit. The first one is the user's. ``key`` without an id keeps nothing."""
        if not key[1]:
            return
        kept = messages[-MESSAGES:]
        while kept and (kept[0].role != "user" or sum(len(one.text) for one in kept) > CHARS):
            kept = kept[1:]
        self._kept[key] = _Kept(kept, self._clock())
        self._kept.move_to_end(key)
        self._forget()

    def _forget(self) -> None:
        """Forget conversations that are old or too many, which stand in the order of their last turns.

        Beyond the limit, the client with the most conversations loses its oldest: no other client makes room.
        """
        while self._kept and self._clock() - next(iter(self._kept.values())).at >= SECONDS:
            self._kept.popitem(last=False)
        while len(self._kept) > MOST:
            held = Counter(address for address, _ in self._kept)
            most = max(held.values())
            del self._kept[next(key for key in self._kept if held[key[0]] == most)]
