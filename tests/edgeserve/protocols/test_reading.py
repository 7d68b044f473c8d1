"""Bytes of many connections: turns of the event loop, turns of clients, and the order of each connection's bytes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.raw import dialled, read_answer
from support.server import Running, fake_pool, serving

from edgeserve.protocols.http import HttpConnection
from edgeserve.protocols.reading import READS, SECONDS, Reading


class Loop:
    """The loop's own time, which reads take, and the number of its turn."""

    def __init__(self) -> None:
        self.now, self.turn = 0.0, 0

    def clock(self) -> float:
        return self.now

    async def go(self) -> None:
        self.turn += 1
        await asyncio.sleep(0)


class Reader:
    """A connection that notes its bytes and their turn. ``told`` is shared by all."""

    def __init__(self, peer: str, told: list[tuple[int, Reader, bytes]], loop: Loop, cost: float = 0.0) -> None:
        self.peer, self.reads, self.is_cut = peer, True, False
        self._told, self._loop, self._cost = told, loop, cost

    def data_received(self, data: bytes) -> None:
        self._told.append((self._loop.turn, self, data))
        self._loop.now += self._cost
        if data == b"bad":
            raise ValueError("of one connection")

    def stop_reading(self) -> None:
        self.reads = False

    def go_on_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_cut

    def cut(self) -> None:
        self.is_cut = True


Told = list[tuple[int, Reader, bytes]]


async def all_turns(loop: Loop, told: Told) -> None:
    """Turns until a few pass without a read."""
    begun = loop.turn
    while loop.turn - max([begun, *(turn for turn, _, _ in told)]) < 4:
        await loop.go()


@pytest.mark.parametrize(("cost", "most"), [(0.0, READS), (0.6 * SECONDS, 2), (1.1 * SECONDS, 1), (10 * SECONDS, 1)])
def test_a_turn_has_few_reads_and_little_time(cost: float, most: int) -> None:
    async def main() -> None:
        loop, told = Loop(), Told()
        reading = Reading(loop.clock)
        readers = [Reader("192.0.2.1", told, loop, cost) for _ in range(10)]
        for one in readers:
            reading.take(one, b"1")
        assert [one.reads for one in readers] == [True] * most + [False] * (10 - most)
        await all_turns(loop, told)
        assert [one for _, one, _ in told] == readers
        assert max(Counter(turn for turn, _, _ in told).values()) == most
        assert all(one.reads for one in readers)

    asyncio.run(main())


def test_a_client_with_many_connections_delays_another_by_one_read() -> None:
    async def main() -> None:
        loop, told = Loop(), Told()
        reading = Reading(loop.clock)
        for _ in range(50):
            reading.take(Reader("192.0.2.1", told, loop, SECONDS), b"many")
        await loop.go()
        reading.take(Reader("192.0.2.2", told, loop, SECONDS), b"one")
        before = len(told)
        await all_turns(loop, told)
        assert [data for _, _, data in told].index(b"one") <= before + 1

    asyncio.run(main())


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=60))
@examples(100)
def test_each_connection_gets_its_bytes_in_order(events: list[tuple[int, int, bool]]) -> None:
    """Only bytes of a lost connection are dropped, and none comes twice."""

    async def main() -> None:
        loop, told = Loop(), Told()
        reading = Reading(loop.clock)
        readers = [Reader(f"192.0.2.{number % 3}", told, loop, number * SECONDS / 3) for number in range(6)]
        sent: dict[Reader, list[bytes]] = {one: [] for one in readers}
        lost: set[Reader] = set()
        for number, (which, turns, leaves) in enumerate(events):
            one = readers[which]
            if leaves:
                reading.forget(one)
                lost.add(one)
            elif one not in lost:
                sent[one].append(b"%d" % number)
                reading.take(one, sent[one][-1])
            for _ in range(turns):
                await loop.go()
        await all_turns(loop, told)
        for one in readers:
            came = [data for _, reader, data in told if reader is one]
            assert came == sent[one][: len(came)]
            assert one in lost or (came == sent[one] and one.reads)

    asyncio.run(main())


def test_bytes_of_a_connection_that_was_closed_meanwhile_are_dropped() -> None:
    """It may have lost its place; a request in them would be served without one."""

    async def main() -> None:
        loop, told = Loop(), Told()
        reading = Reading(loop.clock)
        readers = [Reader("192.0.2.1", told, loop, 2 * SECONDS) for _ in range(3)]
        for one in readers:
            reading.take(one, b"1")
        readers[1].cut()
        await all_turns(loop, told)
        assert [one for _, one, _ in told] == [readers[0], readers[2]]

    asyncio.run(main())


@pytest.mark.unforeseen
def test_an_error_of_one_connection_stops_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop, told = Loop(), Told()
        reading = Reading(loop.clock)
        readers = [Reader("192.0.2.1", told, loop, SECONDS) for _ in range(4)]
        for one, data in zip(readers, [b"1", b"bad", b"3", b"4"], strict=True):
            reading.take(one, data)
        await all_turns(loop, told)
        assert [one.is_cut for one in readers] == [False, True, False, False]
        assert [data for _, _, data in told] == [b"1", b"bad", b"3", b"4"]

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "could not be worked on" in caplog.text


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm"])) as running:
        yield running


ASK = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.slow
def test_requests_of_many_connections_begin_a_few_in_a_turn(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are sent ahead: the first of each connection, and those that follow it."""
    turn, reads = 0, Counter[int]()
    loop: Any = running.server._loop
    feed, run_once = HttpConnection.data_received, loop._run_once

    def counted() -> None:
        nonlocal turn
        turn += 1
        run_once()

    def noted(self: Any, data: bytes) -> None:
        reads[turn] += 1
        feed(self, data)

    monkeypatch.setattr(loop, "_run_once", counted)  # a callback would count reads before and behind it apart
    monkeypatch.setattr(HttpConnection, "data_received", noted)
    with contextlib.ExitStack() as links:
        open_ = [links.enter_context(dialled(running)) for _ in range(40)]
        for link in open_:
            link.sendall(ASK * 3)
        for link in open_:
            assert [status for status, _ in _answers(link, 3)] == [200] * 3
    assert reads.total() >= 40 * 3
    assert max(reads.values()) < 2 * READS  # a turn of reads may begin within a turn of the loop, behind some reads


def _answers(link: socket.socket, count: int) -> Iterator[tuple[int, Any]]:
    return (read_answer(link) for _ in range(count))
