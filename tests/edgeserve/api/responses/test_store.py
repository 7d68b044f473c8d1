"""The store of past responses: its bounds, its order, and its owners."""

from __future__ import annotations

import random

import pytest

from edgeserve.api.responses.store import (
    ALL_BYTES,
    FLOOR,
    MOST_ITEMS,
    STALE_SECONDS,
    Owner,
    ResponseStore,
    StoredItem,
    StoredResponse,
)

ME, OTHER = Owner(("me",), ("a",)), Owner(("other",), ("b",))
BESIDE = Owner(("beside",), ("a",))
"""Another owner of the first one's group."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def item(name: str, size: int = 10) -> StoredItem:
    return StoredItem(name, b"x" * size)


def response(name: str, *items: StoredItem, body: int = 10) -> StoredResponse:
    return StoredResponse(name, b"y" * body, items, len(items))


def test_only_its_owner_finds_and_removes_a_response() -> None:
    store = ResponseStore()
    mine = response("r", item("i"))
    assert store.add(mine, ME)
    for stranger in (OTHER, BESIDE):
        assert store.find("r", stranger) is None
        assert not store.remove("r", stranger)
        assert store.items(stranger) == {}
    assert store.find("r", ME) is mine
    assert store.items(ME) == {"i": mine.items[0]}
    assert store.remove("r", ME)
    assert store.find("r", ME) is None
    assert (len(store), store.bytes) == (0, 0)


def test_the_least_recently_used_response_makes_room() -> None:
    store = ResponseStore(most=2)
    for name in "ab":
        store.add(response(name), ME)
    store.find("a", ME)
    store.add(response("c"), ME)
    assert [store.find(name, ME) is not None for name in "abc"] == [True, False, True]


def test_items_of_one_conversation_count_once() -> None:
    store, shared = ResponseStore(), item("i", 100_000)
    store.add(response("a", shared), ME)
    once = store.bytes
    store.add(response("b", shared), ME)
    assert store.bytes < once + 5000
    store.remove("a", ME)
    assert store.bytes > 100_000
    store.remove("b", ME)
    assert store.bytes == 0


def test_bytes_are_bounded_and_a_response_beyond_them_is_not_kept() -> None:
    store = ResponseStore(most_bytes=10_000)
    assert not store.add(response("large", item("i", 10_000)), ME)
    for number in range(20):
        assert store.add(response(str(number), item(str(number), 2000)), ME)
        assert store.bytes <= 10_000
    assert store.find("19", ME) is not None
    assert store.find("0", ME) is None


def test_nobody_pushes_out_what_another_client_uses() -> None:
    clock = Clock()
    store = ResponseStore(most=3, most_of_all=3, clock=clock)
    for name in "ab":
        assert store.add(response(name), ME)
    assert store.add(response("c"), OTHER)
    assert store.add(response("d"), OTHER)  # takes the place of the client's own
    assert [store.find(name, ME) is not None for name in "ab"] == [True, True]
    assert (store.find("c", OTHER), store.find("d", OTHER) is not None) == (None, True)
    third = Owner(("third",), ("c",))
    assert not store.add(response("e"), third)
    clock.now = STALE_SECONDS
    store.find("a", ME)
    assert store.add(response("f"), third)
    assert store.find("b", ME) is None or store.find("d", OTHER) is None
    assert store.find("a", ME) is not None


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 400_000])
def test_clients_that_fill_the_store_keep_no_other_client_out(size: int) -> None:
    store = ResponseStore()
    others = [Owner((str(number),), (str(number),)) for number in range(4)]
    for number in range(100):
        for owner in others:
            store.add(response(str(number), item(f"{owner.name}{number}", size)), owner)
    for number in range(FLOOR):
        assert store.add(response(f"mine{number}", item(f"mine{number}", size // 8)), ME)
    before = len(store)
    for number in range(100, 200):
        for owner in others:
            assert store.add(response(str(number), item(f"{owner.name}{number}", size)), owner)
    assert all(store.find(f"mine{number}", ME) for number in range(FLOOR))
    assert len(store) == pytest.approx(before, abs=4)
    assert store.bytes <= ALL_BYTES


def test_the_bounds_hold_whatever_happens() -> None:
    draw, clock = random.Random(7), Clock()
    store = ResponseStore(most=5, most_bytes=20_000, most_of_all=8, bytes_of_all=30_000, clock=clock)
    owners = [Owner((str(number),), (str(number % 3),)) for number in range(5)]
    items = [item(str(number), draw.randrange(5000)) for number in range(30)]
    made: list[tuple[Owner, str]] = []
    for step in range(2000):
        clock.now += draw.randrange(1000)
        owner, name = draw.choice(made or [(owners[0], "none")])
        owner = draw.choice(owners) if draw.random() < 0.5 else owner
        match draw.randrange(3):
            case 0:
                made.append((owner, f"{step}"))
                kept = store.add(response(f"{step}", *draw.sample(items, draw.randrange(4))), owner)
                assert kept == (store.find(f"{step}", owner) is not None)
            case 1:
                store.remove(name, owner)
            case _:
                store.find(name, owner)
        assert len(store) <= 8
        assert 0 <= store.bytes <= 30_000
    for owner, name in made:
        store.remove(name, owner)
    assert (len(store), store.bytes) == (0, 0)


def test_a_response_of_very_many_items_is_not_kept() -> None:
    """Each item is counted as the response comes and goes. 20,000 thoughts take no token of the prompt."""
    store = ResponseStore()
    assert store.add(response("r", *(item(f"i{number}", 0) for number in range(MOST_ITEMS))), ME)
    many = response("s", *(item(f"i{number}", 0) for number in range(MOST_ITEMS + 1)))
    assert not store.fits(many.items)
    assert not store.add(many, ME)
    assert store.find("s", ME) is None
