"""Places of clients, and who gives one up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.clients import Client
from edgeserve.shares import Shares, has_share

CLIENTS = st.builds(Client, st.sampled_from(["", "k"]), st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]))


def held_by(*clients: Client) -> Shares:
    return Shares(client.groups for client in clients)


def taken(limit: int, *clients: Client) -> list[int]:
    """Places that clients get which take all they can, one after the other."""
    shares = Shares()
    for client in clients:
        while not has_share(limit, shares, client.groups):
            shares.add(client.groups)
    return [shares.held(client.groups) for client in clients]


def networks(key: str, count: int) -> list[Client]:
    return [Client(key, f"2001:db8:{number}::1") for number in range(count)]


@each(
    ("limit", "places"),
    [(1, [1]), (2, [1, 1]), (4, [2, 1, 1]), (8, [4, 2, 1, 1]), (16, [8, 4, 1, 1, 1, 1]), (64, [32, 16, *[1] * 16])],
)
def test_the_last_quarter_is_for_clients_that_have_no_place(limit: int, places: list[int]) -> None:
    assert taken(limit, *networks("", len(places) + 1)) == [*places, 0]


@each(("limit", "places"), [(2, 1), (3, 2), (4, 3), (8, 7), (16, 14), (64, 56)])
def test_the_networks_of_one_key_leave_places_to_other_keys(limit: int, places: int) -> None:
    """Five networks of one key had all 16 places. In a household with one key each network is a client."""
    mine, others = networks("mine", 2 * limit), [Client(f"key {number}") for number in range(limit - places)]
    found = taken(limit, *mine, *others, *mine)
    assert sum(found[: len(mine)]) == places
    assert found[len(mine) : -len(mine)] == [1] * len(others)


def test_without_keys_the_networks_of_one_site_leave_places_to_other_sites() -> None:
    mine = [Client("", f"2001:db8:1:{number}::1") for number in range(64)]
    assert sum(taken(16, *mine)) == 14


@given(st.integers(1, 40), st.lists(CLIENTS, max_size=80))
def test_no_client_ever_holds_more_than_half_and_none_gets_a_place_that_is_not_there(
    limit: int, asking: list[Client]
) -> None:
    shares = Shares()
    for client in asking:
        if not has_share(limit, shares, client.groups):
            shares.add(client.groups)
        assert len(shares) <= limit
        assert shares.held(client.groups) <= max(1, limit // 2)


A, B, C = (Client(address=f"10.0.0.{number}") for number in (1, 2, 3))


def test_the_greediest_gives_first_and_nobody_who_would_then_have_fewer() -> None:
    shares = held_by(A, A, A, B, B)
    assert shares.greedier(C.groups) == [A.groups, B.groups]
    shares.add(C.groups)
    assert shares.greedier(C.groups) == [A.groups]
    shares.add(C.groups)
    assert shares.greedier(C.groups) == []
    assert shares.greedier(A.groups) == []


def test_all_who_have_one_key_are_one_client_to_another_key() -> None:
    ours, theirs = [Client("k", f"10.0.0.{number}") for number in (1, 2, 3)], Client("j", "10.0.0.9")
    shares = held_by(*ours, theirs)
    assert len(shares.greedier(theirs.groups)) == 3
    assert shares.greedier(Client("k", "10.0.0.4").groups) == []
    shares.add(ours[0].groups)
    assert shares.greedier(Client("k", "10.0.0.4").groups) == [ours[0].groups]


@given(st.lists(CLIENTS), CLIENTS)
def test_two_clients_never_take_places_from_each_other_in_turns(held: list[Client], asking: Client) -> None:
    shares = held_by(*held)
    assert len(shares) == len(held)
    for greedy in shares.greedier(asking.groups):
        after = held_by(*held)
        after.remove(greedy)
        after.add(asking.groups)
        assert asking.groups not in after.greedier(greedy)


@given(st.lists(CLIENTS))
def test_places_that_are_given_back_leave_nothing(held: list[Client]) -> None:
    shares, left = held_by(*held), Counter(client.groups for client in held)
    for client in held:
        assert shares.held(client.groups) == left[client.groups]
        left[client.groups] -= 1
        shares.remove(client.groups)
    assert vars(shares) == vars(Shares())
