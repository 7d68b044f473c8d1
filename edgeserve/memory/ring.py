"""A ring of rows of whole numbers: it takes the same memory whatever is written."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

LARGEST = (1 << 32) - 1
"""Largest number of a cell; larger ones are stored as this one, and negative ones as 0."""


class Ring:
    """The last ``limit`` rows of ``width`` cells, four bytes a cell. Rows are numbered from 0 on. No lock."""

    def __init__(self, width: int, limit: int) -> None:
        self._width, self._limit = width, limit
        self._cells = array("I")
        self.end = 0
        """Number of the next row."""

    @property
    def first(self) -> int:
        """Number of the oldest row that is kept; ``end`` while there is none."""
        return max(0, self.end - self._limit)

    @property
    def size(self) -> int:
        """Bytes of all cells."""
        return len(self._cells) * self._cells.itemsize

    def append(self, row: Sequence[int]) -> tuple[int, ...] | None:
        """Write a row. Returns the row whose place it took. Raises ValueError for a row of another width."""
        if len(row) != self._width:
            raise ValueError(f"a row has {self._width} cells, not {len(row)}")
        lost = self[self.first] if self.end >= self._limit else None
        start = self.end % self._limit * self._width
        # A slice at the end of an array that still grows appends.
        self._cells[start : start + self._width] = array("I", [min(max(0, cell), LARGEST) for cell in row])
        self.end += 1
        return lost

    def __getitem__(self, number: int) -> tuple[int, ...]:
        """The row of this number. Raises IndexError for one that is not kept."""
        if not self.first <= number < self.end:
            raise IndexError(f"row {number} is not among {self.first} to {self.end - 1}")
        start = number % self._limit * self._width
        return tuple(self._cells[start : start + self._width])

    def rows(self, since: int = 0) -> Iterator[tuple[int, ...]]:
        """The kept rows from the number ``since`` on, the oldest first."""
        return (self[number] for number in range(max(since, self.first), self.end))
