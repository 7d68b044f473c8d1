"""Connections to nodes: interim answers before an answer, few or without end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpcore
import pytest
from support.cases import each

from edgeserve.cluster.nodes import MOST, Watched

INTERIM = b"HTTP/1.1 102 Processing\r\nx: y\r\n\r\n"
FINAL = b"HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n"


class Sends(httpcore.AsyncNetworkStream):
    """A node that sends these pieces, whatever it is asked."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)

    async def read(self, *given: Any, **named: Any) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, *given: Any, **named: Any) -> None:
        """It reads nothing."""


def read(*answers: Sequence[bytes]) -> list[bytes]:
    """The bytes that are read of each answer, each behind a request of its own."""

    async def run() -> list[bytes]:
        stream = Watched(Sends([piece for answer in answers for piece in answer]))
        found = []
        for answer in answers:
            await stream.write(b"GET / HTTP/1.1\r\n\r\n")
            found.append(b"".join([await stream.read(1 << 16) for _ in answer]))
        return found

    return asyncio.run(run())


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@each(
    "answer",
    [
        [FINAL],
        [INTERIM * MOST + FINAL],
        bytewise(INTERIM * MOST + FINAL),
        [FINAL + INTERIM * 10 * MOST],
        [FINAL, *[INTERIM] * 10 * MOST],
        [b"HTTP/1.0 200 OK\n\n" + INTERIM * 10 * MOST],
    ],
)
def test_an_answer_comes_as_it_was_sent_time_after_time(answer: list[bytes]) -> None:
    assert read(answer, answer) == [b"".join(answer)] * 2


@each(
    "answer",
    [[INTERIM * 10_000], [INTERIM] * (MOST + 1), bytewise(INTERIM * (MOST + 1)), [b"HTTP/1.1 100 C\n\n" * 10]],
)
def test_a_node_that_sends_interim_answers_without_end_is_lost(answer: list[bytes]) -> None:
    with pytest.raises(httpcore.RemoteProtocolError, match="more than 8 interim answers"):
        read(answer)
