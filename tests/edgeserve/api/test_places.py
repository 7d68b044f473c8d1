"""Places of sessions: their number and their sound are shared between clients, and silent sessions give way."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.gates import Clock

from edgeserve.api.places import KEPT_BYTES, SILENT_SECONDS, Place, Places, most_kept
from edgeserve.clients import Client
from edgeserve.errors import Busy
from edgeserve.memory.traffic import Traffic
from edgeserve.units import MB


def client(number: int) -> Client:
    return Client("", f"10.0.0.{number}")


def test_half_of_all_places_are_for_one_client() -> None:
    places = Places(3)
    with places.one(client(1)):
        with pytest.raises(Busy, match="1 conversations of yours are open"), places.one(client(1)):
            pass
        with places.one(client(2)), places.one(client(3)):
            full = places.one(client(4))
            with pytest.raises(Busy, match="3 conversations are open"):
                full.__enter__()
        assert len(places) == 1
    assert len(places) == 0


@each(("limit", "most"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (4, [2, 1, 1]), (5, [2, 2, 1]), (16, [8, 4, *[1] * 4, 0])])
def test_greedy_clients_leave_places_to_others(limit: int, most: list[int]) -> None:
    """They kept their places as long as their sessions were in use. A sixth client got none of 16."""
    places, found = Places(limit), []
    with contextlib.ExitStack() as opened:
        for number in range(len(most)):
            before = len(places)
            with contextlib.suppress(Busy):
                for _ in range(limit + 1):
                    opened.enter_context(places.one(client(number)))
            found.append(len(places) - before)
    assert found == most


def test_another_key_at_the_same_address_is_another_client() -> None:
    """All clients of a proxy have its address: one of them took the places, and the sound, of all."""
    places = Places(4)
    with contextlib.ExitStack() as opened:
        held = [opened.enter_context(places.one(Client("one", "10.0.0.1"))) for _ in range(2)]
        with pytest.raises(Busy, match="2 conversations of yours"):
            opened.enter_context(places.one(Client("one", "10.0.0.1")))
        other = opened.enter_context(places.one(Client("other", "10.0.0.1")))
        held[0].keep(KEPT_BYTES // 2)
        other.keep(KEPT_BYTES // 2)


def test_a_silent_session_of_the_client_with_the_most_gives_its_place_away() -> None:
    clock = Clock()
    places = Places(6, clock=clock)
    with contextlib.ExitStack() as opened:
        held = [opened.enter_context(places.one(client(number))) for number in (1, 1, 1, 2, 3, 4)]
        with pytest.raises(Busy, match="6 conversations are open"):
            opened.enter_context(places.one(client(9)))
        clock.now += SILENT_SECONDS
        held[0].touch()
        assert isinstance(opened.enter_context(places.one(client(9))), Place)
        assert [one.lost.is_set() for one in held] == [False, True, False, False, False, False]
        assert len(places) == 6
        opened.enter_context(places.one(client(8)))
        assert sum(one.lost.is_set() for one in held) == 2
        with pytest.raises(Busy, match="6 conversations are open"):  # each client has one
            opened.enter_context(places.one(client(7)))
    assert len(places) == 0


def test_a_client_has_half_of_the_sound_and_less_where_more_clients_speak() -> None:
    places = Places(16)
    with contextlib.ExitStack() as opened:
        one, other = (opened.enter_context(places.one(client(1))) for _ in range(2))
        one.keep(KEPT_BYTES // 2)
        with pytest.raises(Busy, match=r"keep 48\.0 MB of sound and items"):
            other.keep(1)
        assert other.held == 0
        one.keep(100)
        other.keep(KEPT_BYTES // 2 - 100)
        for number in (2, 3):
            opened.enter_context(places.one(client(number))).keep(KEPT_BYTES // 3)
        with pytest.raises(Busy, match="limit is 32 MB"):
            other.keep(other.held + 1)
        other.keep(10)
        other.keep(KEPT_BYTES // 3 - 100)


def test_the_sound_that_sessions_keep_is_no_memory_of_the_server_itself() -> None:
    traffic = Traffic()
    places = Places(16, most_kept=most_kept(400 * MB), traffic=traffic)
    with places.one(client(1)) as one, places.one(client(1)) as other:
        one.keep(20 * MB)
        other.keep(2 * MB)
        assert traffic.held == 22 * MB
        with pytest.raises(Busy, match=r"limit is 25 MB"):
            other.keep(6 * MB)
        one.keep(MB)
        assert traffic.held == 3 * MB
    assert traffic.held == 0
    assert most_kept(16_000 * MB) == KEPT_BYTES


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, KEPT_BYTES)), max_size=40))
def test_no_client_ever_keeps_more_than_half_of_the_sound(steps: list[tuple[int, int, int]]) -> None:
    places = Places(16)
    with contextlib.ExitStack() as opened:
        mine: dict[tuple[int, int], Place] = {}
        for who, number, size in steps:
            with contextlib.suppress(Busy):
                if (who, number) not in mine:
                    mine[who, number] = opened.enter_context(places.one(client(who)))
                mine[who, number].keep(size)
            assert all(
                sum(one.held for (whose, _), one in mine.items() if whose == who) <= KEPT_BYTES // 2 for who in range(4)
            )
