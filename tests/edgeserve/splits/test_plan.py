"""The split of layers over machines, as properties and by example."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.errors import DoesNotFit
from edgeserve.splits.plan import Room, Sizes, allocate, split
from edgeserve.units import MB

rooms = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=16)
counts = st.integers(0, 200)


@given(rooms, counts)
def test_every_layer_has_a_machine_and_every_machine_a_layer(found: list[int], more: int) -> None:
    layers = len(found) + more
    shares = allocate(layers, found)
    assert sum(shares) == layers
    assert len(shares) == len(found)
    assert min(shares) >= 1


@given(rooms, counts)
def test_more_room_never_means_fewer_layers(found: list[int], more: int) -> None:
    shares = allocate(len(found) + more, found)
    ordered = [share for _, share in sorted(zip(found, shares, strict=True))]
    assert all(one <= other for one, other in itertools.pairwise(ordered))


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=16), counts)
def test_where_every_share_is_a_layer_at_least_none_is_a_layer_off(found: list[int], more: int) -> None:
    layers, total = len(found) + more, sum(found)
    exact = [Fraction(layers * room, total) for room in found]
    if min(exact) >= 1:
        assert all(abs(share - one) < 1 for share, one in zip(allocate(layers, found), exact, strict=True))


@given(rooms, counts, st.integers(1, 1000))
def test_only_proportions_count(found: list[int], more: int, factor: int) -> None:
    layers = len(found) + more
    assert allocate(layers, found) == allocate(layers, [factor * room for room in found])


@pytest.mark.parametrize(
    ("layers", "found", "shares"),
    [
        (30, [2000, 1000], (20, 10)),
        (30, [1000, 1000, 1000], (10, 10, 10)),
        (32, [1000, 1000, 1000], (11, 11, 10)),
        (10, [5000, 1, 5000], (5, 1, 4)),
        (3, [0, 0, 0], (1, 1, 1)),
        (3, [9000, 0, 0], (1, 1, 1)),
    ],
)
def test_by_the_largest_remainder(layers: int, found: list[int], shares: tuple[int, ...]) -> None:
    assert allocate(layers, found) == shares


def test_fewer_layers_than_machines() -> None:
    with pytest.raises(ValueError, match="2 layers over 3 machines"):
        allocate(2, [1, 1, 1])
    with pytest.raises(DoesNotFit, match="2 layers, too few for 3 machines: name fewer nodes"):
        split(Sizes((MB, MB)), [Room(str(number), 100 * MB) for number in range(3)])


sizes = st.builds(
    Sizes,
    st.lists(st.integers(1, 100), min_size=4, max_size=40).map(tuple),
    *[st.integers(0, 50)] * 4,
)


@given(sizes, st.lists(st.integers(0, 5000), min_size=1, max_size=4))
def test_a_split_holds_the_whole_model_once_and_no_machine_is_overfull(found: Sizes, free: list[int]) -> None:
    machines = [Room(f"box{number}", room) for number, room in enumerate(free)]
    try:
        parts = split(found, machines)
    except DoesNotFit:
        return
    assert all(part.size <= room for part, room in zip(parts, free, strict=True))
    assert sum(part.layers for part in parts) == len(found.layers)
    whole = sum(found.layers) + len(found.layers) * found.cache + sum(found.fixed(len(parts)))
    assert sum(part.size for part in parts) == whole


def test_a_machine_that_is_too_small_is_named_with_the_sizes() -> None:
    model = Sizes((100 * MB,) * 10, cache=10 * MB, first=50 * MB, last=40 * MB, overhead=20 * MB)
    with pytest.raises(DoesNotFit) as failure:
        split(model, [Room("this machine", 900 * MB), Room("box2:50052", 150 * MB)])
    text = failure.value.message
    assert "box2:50052 has 150 MB free, and its 1 layer would take 170 MB" in text
    assert "1230 MB in all, 1050 MB free in all" in text


def test_what_lies_beside_the_layers_counts_before_they_are_shared_out() -> None:
    model = Sizes((100 * MB,) * 10, last=400 * MB)
    parts = split(model, [Room("this machine", 800 * MB), Room("box2", 800 * MB)])
    assert [part.layers for part in parts] == [7, 3]
