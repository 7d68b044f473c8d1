"""Turns between clients."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples

from edgeserve.clients import Client, Idle
from edgeserve.residency.rounds import Place, Rounds


@dataclass(eq=False)
class Item:
    name: str
    place: Place = field(default_factory=Place)


def item(client: str, name: str = "", key: str = "") -> Item:
    return Item(name or client, Place(Client(key, client)))


def add(rounds: Rounds[Item], *names: str) -> None:
    """Items by their names, of the client that the first letter names."""
    for name in names:
        rounds.add(item(name[0], name))


def drain(rounds: Rounds[Item]) -> str:
    """The names of all items in the order of their turns, one turn after the other."""
    names = []
    while (one := rounds.take()) is not None:
        names.append(one.name)
        rounds.end(one)
    return " ".join(names)


def test_clients_take_turns_and_each_is_served_in_its_own_order() -> None:
    rounds: Rounds[Item] = Rounds()
    add(rounds, "a1", "a2", "a3", "b1", "b2", "c1")
    assert drain(rounds) == "a1 b1 c1 a2 b2 a3"


def test_a_newcomer_goes_ahead_of_a_client_that_just_had_its_turn() -> None:
    rounds: Rounds[Item] = Rounds()
    add(rounds, "a1", "a2")
    first = rounds.take()
    assert first is not None
    add(rounds, "b1")
    rounds.end(first)
    assert drain(rounds) == "b1 a2"


@each(("key", "next_"), [(Idle.CLIENT, "a2"), (Idle.KEY, "b")])
def test_of_newcomers_those_of_a_key_with_nothing_under_way(key: Idle, next_: str) -> None:
    rounds: Rounds[Item] = Rounds()
    rounds.add(item("10.0.0.1", "a1", "a"))
    assert rounds.take() is not None
    for one in (item("10.0.0.1", "a1, again", "a"), item("10.0.0.2", "a2", "a"), item("10.0.0.1", "b", "b")):
        rounds.add(one)
    found = rounds.next(idle=key)
    assert found is not None
    assert rounds.is_idle(found.place.groups, key)
    assert {one.name for one in rounds if rounds.is_idle(one.place.groups, key)} == {"b", next_}


def test_newcomers_never_go_ahead_of_one_who_waits_since_before_them() -> None:
    rounds: Rounds[Item] = Rounds()
    add(rounds, "a1", "a2")
    one = rounds.take()
    assert one is not None
    rounds.end(one)
    for newcomer in "bcdefgh":
        add(rounds, newcomer)
        last, one = one, rounds.take()
        assert one is not None
        if one.name == "a2":
            return
        rounds.end(one)
    raise AssertionError(f"a2 had no turn, {last} did")


def test_all_items_of_an_earlier_place_come_first() -> None:
    rounds: Rounds[Item] = Rounds()
    early, late = Place(Client(address="a")), Place(Client(address="a"))
    for name, place in (("late1", late), ("early1", early), ("late2", late), ("early2", early)):
        rounds.add(Item(name, place))
    assert drain(rounds) == "early1 early2 late1 late2"


def test_slots_go_to_the_client_with_the_fewest() -> None:
    rounds: Rounds[Item] = Rounds()
    rounds.by_count = True
    add(rounds, "a1", "a2", "a3", "a4", "a5")
    under_way = [rounds.take() for _ in range(4)]
    add(rounds, "b1", "b2", "b3", "c1")
    taken = []
    for one in under_way:
        assert one is not None
        rounds.end(one)
        taken.append(rounds.take())
    # b1 and c1 were first without a slot; b2 follows, since a has one slot more than b until its last answer ends.
    assert [one.name for one in taken if one] == ["b1", "c1", "b2", "a5"]


def test_keys_share_before_the_addresses_that_use_them() -> None:
    rounds: Rounds[Item] = Rounds()
    for name in ("a1", "a2", "b1", "b2"):
        rounds.add(item(name[0], name, key="k"))
    rounds.add(item("c", "c1", key="j"))
    rounds.add(item("c", "c2", key="j"))
    assert drain(rounds) == "a1 c1 b1 c2 a2 b2"


def test_what_is_put_back_is_next_again() -> None:
    rounds: Rounds[Item] = Rounds()
    add(rounds, "a1", "a2", "b1")
    one = rounds.take()
    assert one is not None
    rounds.put_back(one)
    assert len(rounds) == 3
    assert one in rounds
    assert drain(rounds) == "a1 b1 a2"


def test_what_is_removed_as_its_turn_comes_has_had_its_turn() -> None:
    rounds: Rounds[Item] = Rounds()
    add(rounds, "a1", "a2", "b1", "b2")
    first = rounds.next()
    assert first is not None
    assert rounds.remove(first, turn=True)
    assert not rounds.remove(first)
    assert drain(rounds) == "b1 a2 b2"


def test_the_last_place_is_given_up_that_costs_least() -> None:
    rounds: Rounds[Item] = Rounds()
    one, other = item("a", "a1"), item("a", "a2")
    rounds.add(one)
    rounds.add(other)
    assert rounds.last(one.place.groups) is other
    other.place.begun = 1
    assert rounds.last(one.place.groups) is one
    one.place.begun = 1
    assert rounds.last(one.place.groups) is other, "it has begun, but nothing of it is under way"
    other.place.running = 1
    assert rounds.last(one.place.groups) is one
    one.place.running = 1
    assert rounds.last(one.place.groups) is None
    assert rounds.last(item("b").place.groups) is None


ARRIVALS, ENDS = st.tuples(st.sampled_from("abc"), st.just(0)), st.tuples(st.just(""), st.integers())
"""Steps: a client's request, or no client and the number of an answer that ends."""


@pytest.mark.slow
@examples(200)
@given(st.lists(ARRIVALS | ENDS), st.integers(1, 3))
def test_a_client_waits_for_one_answer_of_each_other_at_most(steps: list[tuple[str, int]], slots: int) -> None:
    """Any pattern of arrivals and ends. ``slots`` are taken whenever they are free and somebody waits."""
    rounds: Rounds[Item] = Rounds()
    by_count = rounds.by_count = slots > 1
    under_way: list[Item] = []
    passed: dict[str, Counter[str]] = {}

    def fill() -> None:
        while len(under_way) < slots and (one := rounds.take()) is not None:
            client = one.name
            under_way.append(one)
            if not any(waiting.name == client for waiting in rounds):
                passed.pop(client)
            else:
                passed[client].clear()
            busy = Counter(running.name for running in under_way)
            for other, ahead in passed.items():
                if other != client and (not by_count or not busy[other]):
                    ahead[client] += 1
                    assert ahead[client] <= 1, f"{client} was served twice while {other} waited"

    for client, number in steps:
        if client:
            passed.setdefault(client, Counter())
            rounds.add(item(client))
        elif under_way:
            rounds.end(under_way.pop(number % len(under_way)))
        fill()
    while under_way:
        rounds.end(under_way.pop())
        fill()
    assert not len(rounds)
    assert not passed
    empty: Rounds[Item] = Rounds()
    for name in ("_lines", "_since", "_before", "_waiting", "_taken"):
        assert getattr(rounds, name) == getattr(empty, name), "nothing of a client stays"
