"""MLX's limits: the example of the reference, and each candidate as the winner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.memory import readings

from edgeserve.memory.metal import CACHE_FRACTION, LEAST, limits
from edgeserve.system.readings import Accelerator
from edgeserve.units import GB


def mac(total: float, available: float, recommended: float) -> Any:
    size = int(total * GB)
    return readings(
        size,
        int(available * GB),
        accelerator=Accelerator("metal", size, recommended=int(recommended * GB), unified=True),
    )


@each(
    ("machine", "winner", "gb"),
    [
        (mac(48, 33, 46), "adaptive_available", 30.0),  # "min(33.6, 45, 46, 30.0) = 30.0 GB (adaptive wins)"
        (mac(48, 40, 46), "fraction_of_total", 33.6),
        (mac(8, 8, 7), "total_minus_reserve", 5.0),
        (mac(64, 60, 40), "apple_recommended", 40.0),
        (mac(16, 4, 12), "fraction_of_total", 11.2),  # 1 GB is not valid: too little to work in
        (mac(2, 1, 1), "least", 2.0),
        (mac(48, 33, 0), "adaptive_available", 30.0),
    ],
)
def test_the_smallest_valid_candidate_wins(machine: Any, winner: str, gb: float) -> None:
    found = limits(machine)
    assert found.winner == winner
    assert found.memory / GB == pytest.approx(gb)
    assert found.cache == int(found.memory * CACHE_FRACTION)


@pytest.mark.parametrize(("macos", "wired"), [((), None), ((14, 7), None), ((15, 0), 30 * GB), ((26, 1), 30 * GB)])
def test_memory_is_pinned_only_where_the_system_can(macos: tuple[int, ...], wired: int | None) -> None:
    assert limits(mac(48, 33, 46), macos).wired == wired


@given(st.floats(0, 600), st.floats(0, 600), st.floats(0, 600))
def test_every_limit_is_between_the_least_and_apples_recommendation(
    total: float, available: float, recommended: float
) -> None:
    found = limits(mac(total, available, recommended), (15, 0))
    assert found.memory >= LEAST
    if found.winner != "least" and recommended * GB > LEAST + 1:
        assert found.memory <= recommended * GB
    assert found.wired is None or found.wired <= found.memory


def test_the_candidates_are_named() -> None:
    assert limits(mac(48, 33, 46)).candidates == {
        "fraction_of_total": int(48 * GB * 0.7),
        "total_minus_reserve": 45 * GB,
        "apple_recommended": 46 * GB,
        "adaptive_available": 30 * GB,
    }
    assert "apple_recommended" not in limits(mac(48, 33, 0)).candidates
