"""Places of clients, and who gives one up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgeserve.clients import Client
from edgeserve.shares import Shares

CLIENTS = st.builds(Client, st.sampled_from(["", "k"]), st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]))


def held_by(*clients: Client) -> Shares:
    shares = Shares()
    for client in clients:
        shares.add(client.groups)
    return shares


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
