"""One case of the fuzzer, and the end that it came to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

SESSION = b"-session-"
"""Stands in a path or a body for the name of the live session that an earlier step of the case began."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One HTTP request. The client adds Host and Content-Length, unless ``headers`` has them."""

    method: str
    path: str
    body: bytes = b""
    media: str = ""
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Talk:
    """One WebSocket: bytes that follow the handshake, whether they are frames or not."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Raw:
    """All bytes of a connection, which are almost an HTTP request. The client ends its half after them."""

    body: bytes


@dataclass(frozen=True, slots=True)
class File:
    """Bytes for a room of ours that no route reaches: ``room`` names an entry of benchmarks/fuzz/rooms.py."""

    room: str
    body: bytes


Step = Ask | Talk | Raw | File


@dataclass(frozen=True, slots=True)
class Case:
    """``name``: the way in which it was made, for people. ``steps`` run one after the other."""

    kind: str
    number: int
    name: str
    steps: Sequence[Step]


@dataclass(slots=True)
class End:
    """The last step's ``status`` (of HTTP, a close code, or a room's own word) and ``code`` of an error.

    ``seconds``: the slowest step's. ``faults``: what must not be, in one line each.
    """

    status: str = ""
    code: str = ""
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


def dice_of(seed: int, kind: str, number: int) -> random.Random:
    """The dice of one case: the same for the same three, whatever ran before."""
    return random.Random(f"{seed}/{kind}/{number}")
