"""Answers of sites, read event by event: what is no picture is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.api.pictures.connection import FREE_PIECES, HEAD, INTERIM, PIECE, READ, Connection, Refused

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


def answered(*parts: bytes) -> Connection:
    """A connection whose site has sent these parts, and closed it."""
    reader = asyncio.StreamReader()
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    connection = Connection(reader)
    connection.http.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.http.send(h11.EndOfMessage())
    return connection


async def read(*parts: bytes) -> bytes:
    connection = answered(*parts)
    await connection.head()
    return b"".join([piece async for piece in connection.body()])


def chunks(sizes: Sequence[int]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (size, bytes(size)) for size in sizes) + b"0\r\n\r\n"


@given(st.lists(st.integers(1, 4 * PIECE), max_size=40), st.integers(0, 2 * FREE_PIECES))
def test_a_picture_comes_whole_unless_its_pieces_are_too_small(sizes: list[int], crumbs: int) -> None:
    given = [*sizes, *[1] * crumbs]
    allowed = all(number <= FREE_PIECES + sum(given[:number]) // PIECE for number in range(FREE_PIECES, len(given) + 1))
    work = read(CHUNKED, chunks(given))
    if allowed:
        assert asyncio.run(work) == bytes(sum(given))
    else:
        with pytest.raises(Refused, match="too small: "):
            asyncio.run(work)


@each("size", [1, 2, 16, 100, 200])
def test_small_pieces_end_however_many_follow(size: int) -> None:
    with pytest.raises(Refused, match=r"pieces that are too small: \d+ for \d+ bytes"):
        asyncio.run(read(CHUNKED, chunks([size] * 20_000)))


@each("size", [PIECE, 1000, READ, 100_000])
def test_pieces_of_a_common_size_have_no_bound(size: int) -> None:
    count = 3_000_000 // size
    assert len(asyncio.run(read(CHUNKED, chunks([size] * count)))) == count * size


@each("status", [100, 102, 103, 199])
def test_interim_answers_are_few(status: int) -> None:
    one = b"HTTP/1.1 %d X\r\nLink: x\r\n\r\n" % status
    assert asyncio.run(read(one * INTERIM, PLAIN)) == b"abc"
    with pytest.raises(Refused, match=f"more than {INTERIM} interim answers"):
        asyncio.run(read(one * (INTERIM + 1), PLAIN))


@each("head", [b"A: " + 2 * HEAD * b"b", b"A: b\r\n" * (HEAD // 3)])
def test_a_head_has_an_end(head: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        asyncio.run(read(b"HTTP/1.1 200 OK\r\n", head, b"\r\n\r\n"))


@each("sent", [b"", b"HTTP/1.1 200", b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"])
def test_a_site_that_does_not_answer_is_refused(sent: bytes) -> None:
    with pytest.raises((Refused, h11.RemoteProtocolError)):
        asyncio.run(read(sent))


def test_others_have_their_turn_between_two_reads() -> None:
    """All bytes are at hand, so that nothing waits."""

    async def work() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(other())
        await read(CHUNKED, chunks([READ] * 50))
        beside.cancel()
        return turns

    assert asyncio.run(work()) >= 50
