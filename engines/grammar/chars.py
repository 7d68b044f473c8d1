"""Sets of characters as ranges of code points, and their spelling in GBNF."""

from __future__ import annotations

Ranges = list[tuple[int, int]]


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    gaps = joined(removed)
    left: Ranges = []
    for low, high in ranges:
        for first, last in gaps:
            if low < first <= high:
                left.append((low, first - 1))
            if first <= high:
                low = max(low, last + 1)
        if low <= high:
            left.append((low, high))
    return left


def joined(ranges: Ranges) -> Ranges:
    """The same characters in rising ranges apart from one another."""
    apart: Ranges = []
    for low, high in sorted(ranges):
        if apart and low <= apart[-1][1] + 1:
            apart[-1] = apart[-1][0], max(high, apart[-1][1])
        else:
            apart.append((low, high))
    return apart


ALL: Ranges = [(0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF)]
"""All characters except control characters and halves of surrogate pairs."""

ASCII: Ranges = [(0x20, 0x7E)]
PLAIN = without(ALL, [(0x22, 0x22), (0x5C, 0x5C)])
"""Characters that stand for themselves in a JSON string."""


def one_of(ranges: Ranges) -> str:
    return "[" + "".join(f"{_code(low)}-{_code(high)}" for low, high in ranges) + "]"


def _code(point: int) -> str:
    return f"\\U{point:08X}" if point > 0xFFFF else f"\\u{point:04X}"
