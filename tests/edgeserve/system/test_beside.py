"""Threads beside the load of others."""

from __future__ import annotations

from support.cases import each

from edgeserve.system.beside import beside


@each(
    ("others", "now", "threads"),
    [(0.0, 2, 2), (0.4, 2, 2), (0.6, 2, 1), (1.0, 2, 1), (1.0, 1, 1), (0.4, 1, 1), (0.2, 1, 2), (5.0, 2, 1)],
)
def test_each_thread_has_a_core_and_small_changes_move_none(others: float, now: int, threads: int) -> None:
    assert beside(others, now, most=2, count=2) == threads


def test_a_configuration_with_more_threads_than_cores_gets_them_while_nobody_else_works() -> None:
    assert beside(0.0, 4, most=4, count=2) == 4
    assert beside(1.0, 4, most=4, count=2) == 3
