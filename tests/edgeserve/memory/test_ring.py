"""The ring: rows by number, and a size that does not grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.memory.ring import LARGEST, Ring


@given(st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(0, LARGEST), max_size=40))
def test_the_last_rows_are_kept_in_order(width: int, limit: int, written: list[int]) -> None:
    ring = Ring(width, limit)
    for number, cell in enumerate(written):
        lost = ring.append([cell] * width)
        assert lost == ((written[number - limit],) * width if number >= limit else None)
    assert ring.end == len(written)
    assert ring.first == max(0, len(written) - limit)
    assert list(ring.rows()) == [(cell,) * width for cell in written[-limit:]]
    assert ring.size <= 4 * width * limit


def test_rows_from_a_number_on() -> None:
    ring = Ring(1, 3)
    for cell in range(5):
        ring.append([cell])
    assert list(ring.rows(since=4)) == [(4,)]
    assert list(ring.rows(since=0)) == [(2,), (3,), (4,)]
    for number in (1, 5):
        with pytest.raises(IndexError, match=f"row {number} is not among 2 to 4"):
            ring[number]


def test_cells_stay_within_their_bytes() -> None:
    ring = Ring(2, 3)
    ring.append([-1, LARGEST + 1])
    assert ring[0] == (0, LARGEST)


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells, not 1"):
        Ring(2, 3).append([1])
