"""The number of nodes, by queues and memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.nodes import model, node

from edgeserve.cluster.scale import Burden, burden, scale
from edgeserve.engine import Rung
from edgeserve.memory.pressure import Level

BURDENS = some.builds(
    Burden, some.floats(0, 20), some.sampled_from(Level), some.integers(1, 100), some.integers(0, 100)
)


def like(queue: float = 0.5, pressure: Level = Level.LOW, used: float = 10) -> Burden:
    return Burden(queue, pressure, 100, used)


@each(
    ("nodes", "wanted"),
    [
        ([like()], 1),
        ([like(2.0)], 2),
        ([like(2.0), like(0.0)], 2),
        ([like(pressure=Level.HIGH), like(pressure=Level.CRITICAL)], 3),
        ([like(pressure=Level.HIGH), like()], 2),
        ([like(0.1), like(0.1)], 1),
        ([like(0.1, used=60), like(0.1, used=60)], 2),
        ([like(0.0)], 1),
        ([like(9.0)] * 4, 4),
        ([], 1),
    ],
)
def test_examples(nodes: list[Burden], wanted: int) -> None:
    assert scale(nodes, 1, 4) == wanted


@given(some.lists(BURDENS, max_size=8), some.integers(1, 4), some.integers(4, 8))
def test_it_stays_within_its_bounds_and_moves_by_one(nodes: list[Burden], least: int, most: int) -> None:
    wanted = scale(nodes, least, most)
    assert least <= wanted <= most
    assert abs(wanted - min(most, max(least, len(nodes)))) <= 1


@given(some.lists(BURDENS, min_size=1, max_size=6))
def test_no_node_leaves_whose_memory_the_others_do_not_hold(nodes: list[Burden]) -> None:
    if scale(nodes, 1, 8) < len(nodes):
        rest = sorted(one.budget for one in nodes)[:-1]
        assert sum(one.used for one in nodes) <= sum(rest)


def test_a_burden_is_the_longest_queue_by_its_slots() -> None:
    there = node("a", model(rung=Rung.HOT, requests=6, slots=4), model("ears", Rung.HOT, requests=2))
    assert burden(there) == Burden(2.0, Level.LOW, 1000, 600)
    assert burden(node("b")).queue == 0.0
