"""Limits on the number of sessions and on their idle time."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.sound import speech

from edgeserve.clients import Client
from edgeserve.errors import Busy, NotFound
from edgeserve.live.ear import Options
from edgeserve.live.sessions import DEFAULT, Sessions
from edgeserve.memory.traffic import Traffic

ME = Client(address="192.0.2.7")
OTHER = Client(address="192.0.2.8")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(clock: Clock, limit: int = 2, idle_seconds: float = 60) -> Sessions:
    ear: Any = None
    return Sessions(ear, limit=limit, idle_seconds=idle_seconds, clock=clock)


def test_one_too_many_is_refused_with_numbers() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = made(clock)
        first = sessions.start(Options(), ME)
        clock.now += 20
        sessions.start(Options(), OTHER)
        with pytest.raises(Busy, match=r"2 live transcriptions are open.*60 s.*live_sessions") as refused:
            sessions.start(Options(), Client(address="192.0.2.9"))
        assert refused.value.retry_after == 40
        sessions.end(first)
        sessions.end(first)
        assert sessions.start(Options(), ME).name != first.name
        sessions.close()
        assert len(sessions) == 0

    asyncio.run(run())


def test_the_sound_of_sessions_is_no_memory_of_the_server_itself() -> None:
    async def run() -> None:
        ear: Any = None
        traffic = Traffic()
        sessions = Sessions(ear, limit=4, traffic=traffic)
        pushed = sessions.start(Options(), ME)
        await pushed.push(bytes(16_000 * 4))
        assert 0 < traffic.held == pushed.size
        await sessions.overhear(Options()).push(bytes(16_000 * 4))  # its owner counts that
        assert traffic.held == pushed.size
        sessions.end(pushed)
        assert traffic.held == 0

    asyncio.run(run())


ADDRESSES = st.one_of(
    st.just(["192.0.2.7"]),
    st.just(["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::"]),
    st.just(["192.0.2.7", "::ffff:192.0.2.7"]),
    st.just(["loopback"]),
)


@given(ADDRESSES, st.integers(2, 20), st.sampled_from(["", "k"]))
def test_one_client_leaves_half_of_the_places_to_others(addresses: list[str], limit: int, key: str) -> None:
    """Spellings of one address count as one client; another key does not, since all clients of a proxy have its
    address."""

    async def run() -> None:
        sessions = made(Clock(), limit=limit)
        greedy = [Client(key, address) for address in addresses]
        for number in range(limit // 2):
            taken = sessions.start(Options(), greedy[number % len(greedy)])
        with pytest.raises(Busy, match=r"live transcriptions? of yours (is|are) open.*one client"):
            sessions.start(Options(), greedy[-1])
        with pytest.raises(Busy), sessions.using(DEFAULT, greedy[0]):
            pass
        other = sessions.start(Options(), Client("other", addresses[0]))
        sessions.end(other)
        assert sessions.start(Options(), OTHER)
        sessions.end(taken)
        assert sessions.start(Options(), greedy[0])
        sessions.close()

    asyncio.run(run())


@each(("limit", "most"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (4, [2, 1, 1]), (16, [8, 4, *[1] * 4, 0])])
def test_greedy_clients_leave_sessions_to_others(limit: int, most: list[int]) -> None:
    """They kept theirs by a push a minute. A sixth client got none of 16."""

    async def run() -> None:
        sessions, found = made(Clock(), limit=limit), []
        for number in range(len(most)):
            before = len(sessions)
            with contextlib.suppress(Busy):
                for _ in range(limit + 1):
                    sessions.start(Options(), Client("", f"192.0.2.{number}"))
            found.append(len(sessions) - before)
        assert found == most
        sessions.close()

    asyncio.run(run())


def test_idle_sessions_make_room_and_their_names_are_gone() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = made(clock)
        old = sessions.start(Options(), ME)
        clock.now += 59
        with sessions.using(old.name, ME) as used:
            clock.now += 500
            sessions.expire()
            assert not used.closed, "a session in use is not idle"
        clock.now += 60
        with pytest.raises(NotFound, match="not used for 60 s"), sessions.using(old.name, ME):
            pass
        assert old.closed
        sessions.close()

    asyncio.run(run())


def test_the_default_session_begins_with_its_first_use() -> None:
    async def run() -> None:
        sessions = made(Clock(), limit=1)
        with sessions.using(DEFAULT, ME) as one:
            await one.push(speech(0.3))
        with sessions.using(DEFAULT, ME) as two:
            assert two is one
        with pytest.raises(Busy):
            sessions.start(Options(), ME)
        sessions.close()

    asyncio.run(run())


def test_sound_is_freed_though_nobody_asks() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = made(clock, idle_seconds=0.01)
        ended = asyncio.Event()
        sessions.start(Options(), ME).on_news = ended.set
        clock.now += 1
        async with asyncio.timeout(5):
            await ended.wait()
        assert len(sessions) == 0

    asyncio.run(run())


CLIENTS = st.builds(Client, st.sampled_from(["", "a", "b"]), st.sampled_from(["loopback", "192.0.2.7", "192.0.2.8"]))


@given(CLIENTS, CLIENTS)
def test_the_session_without_a_name_is_its_clients_own(one: Client, other: Client) -> None:
    async def run() -> None:
        sessions = made(Clock(), limit=4)
        with sessions.using(DEFAULT, one) as mine, sessions.using(DEFAULT, other) as theirs:
            assert (mine is theirs) is (one == other)
            sessions.end(theirs)
            assert mine.closed is (one == other)
        sessions.close()

    asyncio.run(run())


@given(CLIENTS, CLIENTS)
def test_a_named_session_is_of_whoever_has_its_key_or_without_one_its_address(one: Client, other: Client) -> None:
    async def run() -> None:
        sessions = made(Clock())
        session = sessions.start(Options(), one)
        allowed = one.key == other.key and (bool(one.key) or one.address == other.address)
        with pytest.raises(NotFound) if not allowed else contextlib.nullcontext(), sessions.using(session.name, other):
            pass
        with sessions.using(session.name, one) as same:
            assert same is session
        sessions.close()

    asyncio.run(run())


def test_names_cannot_be_guessed() -> None:
    async def run() -> None:
        sessions = made(Clock(), limit=128)
        names = {sessions.start(Options(), ME).name for _ in range(64)}
        assert len(names) == 64
        assert all(re.fullmatch(r"live_[0-9a-f]{32}", name) for name in names)
        sessions.close()

    asyncio.run(run())
