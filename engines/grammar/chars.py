"""Sets of characters as ranges of code points, and their spelling in GBNF."""

from __future__ import annotations

Ranges = list[tuple[int, int]]


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    gaps = _joined(removed)
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


def _joined(ranges: Ranges) -> Ranges:
    """The same characters in rising ranges apart from one another."""
    joined: Ranges = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


ALL: Ranges = [(0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF)]
"""All characters except control characters and halves of surrogate pairs."""

ASCII: Ranges = [(0x20, 0x7E)]
PLAIN = without(ALL, [(0x22, 0x22), (0x5C, 0x5C)])
"""Characters that stand for themselves in a JSON string."""


def one_of(ranges: Ranges) -> str:
    return "[" + "".join(f"{_code(low)}-{_code(high)}" for low, high in ranges) + "]"


def _code(point: int) -> str:
    return f"\\U{point:08X}" if point > 0xFFFF else f"\\u{point:04X}"
