"""Conversations and the nodes that hold their prefixes: a bounded memory of the nodes that requests used."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

MOST = 10_000
"""Conversations that are remembered; a digest and a name each, about 200 bytes."""
LONG, ENDS = 64 << 10, 4 << 10
"""Characters of a text that is digested by its length and its two ends. A single call writes a text of any length."""
MOST_DIGESTS = 1024
"""Beginnings of one conversation, the longest ones. A question holds them, and it is sent between processes."""


def digests(model: str, messages: Sequence[Any]) -> tuple[bytes, ...]:
    """One digest for each beginning of a conversation: of its first message, of the first two, and so on."""
    found, state = deque[bytes](maxlen=MOST_DIGESTS), hashlib.blake2b(model.encode("utf-8", "replace"), digest_size=16)
    for one in messages:
        state.update(b"\0" + json.dumps(_shortened(one), sort_keys=True).encode())
        found.append(state.digest())
    return tuple(found)


def _shortened(value: Any) -> Any:
    """The value with the ends of its long texts. Pictures have megabytes, and 8 million wide characters take 0.2 s."""
    if isinstance(value, str):
        return value if len(value) <= LONG else [len(value), value[:ENDS], value[-ENDS:]]
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    return {name[:LONG]: _shortened(one) for name, one in value.items()} if isinstance(value, dict) else value


class Affinity:
    """Nodes by the digest of the conversation that they answered last, apart by client. Not for several threads.

    Beyond ``most`` conversations, the client with the most loses its oldest: no other client makes room.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._clients: dict[str, OrderedDict[bytes, str]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def home(self, conversation: Sequence[bytes], client: str = "") -> str:
        """The node that answered the longest beginning of the client's conversation; empty where none did.

        A request holds all messages of the request before it, the answer, and a new message. So only whole requests are
        remembered: a system message that all conversations share has no home.
        """
        nodes: Mapping[bytes, str] = self._clients.get(client, {})
        return next((nodes[one] for one in reversed(conversation) if one in nodes), "")

    def keep(self, conversation: Sequence[bytes], node: str, client: str = "") -> None:
        """Remember that the node answers this conversation of a client."""
        if not conversation:
            return
        nodes = self._clients.setdefault(client, OrderedDict())
        self._count += conversation[-1] not in nodes
        nodes[conversation[-1]] = node
        nodes.move_to_end(conversation[-1])
        while self._count > self._most:
            self._forget_one()

    def _forget_one(self) -> None:
        client, nodes = max(self._clients.items(), key=lambda one: len(one[1]))
        nodes.popitem(last=False)
        self._count -= 1
        if not nodes:
            del self._clients[client]
