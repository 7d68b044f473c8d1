"""Numbers between bounds, digit by digit, as GBNF."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from engines.grammar.rules import Unsayable, either, literal

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

MAX_DIGITS = 15
"""Longest whole numbers that every JSON reader reads alike."""

FRACTION = 4
"""Digits after the point of a bounded number, unless its bounds have more."""


def of_schema(kind: str, schema: Mapping[str, Any]) -> str:
    """The numbers of a schema of this kind, "number" or "integer", which has at least one keyword of numbers.

    Raises Unsayable.
    """
    if schema.get("multipleOf", 1) != 1:
        raise Unsayable("uses multipleOf, which is supported for 1 only")
    low, high, over, under = (Decimal(repr(schema[key])) if key in schema else None for key in BOUNDS)
    above, below = over is not None, under is not None
    if over is not None and low is not None and low > over:
        above = False
    if under is not None and high is not None and high < under:
        below = False
    whole = kind == "integer" or "multipleOf" in schema
    return bounded(over if above else low, under if below else high, above=above, below=below, whole=whole)


@functools.lru_cache(maxsize=64)
def bounded(
    low: Decimal | None, high: Decimal | None, *, above: bool = False, below: bool = False, whole: bool = False
) -> str:
    """Numbers from ``low`` to ``high``; ``above`` excludes ``low``, ``below`` excludes ``high``.

    Raises Unsayable when there is no such number, or when the bounds have too many digits.
    """
    given = [bound for bound in (low, high) if bound is not None]
    most = 0 if whole else max([FRACTION, *(-_exponent(bound) for bound in given)])
    if most > MAX_DIGITS or any(abs(bound) >= 10**MAX_DIGITS for bound in given):
        raise Unsayable(f"has a bound of more than {MAX_DIGITS} digits")
    choices = [one for places in range(most + 1) for one in _fixed(low, high, places, above, below)]
    if not choices:
        raise Unsayable("leaves no number between its bounds")
    return either(*choices)


def _exponent(bound: Decimal) -> int:
    return int(bound.normalize().as_tuple().exponent)


def _fixed(low: Decimal | None, high: Decimal | None, places: int, above: bool, below: bool) -> list[str]:
    """Numbers with exactly ``places`` digits after the point, counted as whole numbers of the smallest step."""
    most = 10**MAX_DIGITS - 1
    least, last = -most, most
    if low is not None:
        scaled = low.scaleb(places)
        least = int(scaled.to_integral_value(ROUND_CEILING)) + (above and scaled == int(scaled))
    if high is not None:
        scaled = high.scaleb(places)
        last = int(scaled.to_integral_value(ROUND_FLOOR)) - (below and scaled == int(scaled))
    choices = []
    if least < 0 and least <= last:
        choices += [f'"-" {one}' for one in _lengths(max(1, -last), -least, places)]
    if last >= 0 and least <= last:
        choices += _lengths(max(0, least), last, places)
    return choices


def _lengths(low: int, high: int, places: int) -> list[str]:
    """Non-negative numbers: one alternative for each count of digits."""
    choices = []
    for length in range(max(len(str(low)), places + 1), max(len(str(high)), places + 1) + 1):
        first = 0 if length == places + 1 else 10 ** (length - 1)
        start, end = max(low, first), min(high, 10**length - 1)
        if start <= end:
            choices.append(_range(str(start).zfill(length), str(end).zfill(length), places))
    return choices


def _range(low: str, high: str, places: int) -> str:
    """Digits from ``low`` to ``high``, which have equal length; the point stands before the last ``places`` digits."""
    left = len(low)
    if not left:
        return ""
    point = '"." ' if left == places else ""
    nines, zeros = "9" * (left - 1), "0" * (left - 1)
    if low[0] == high[0]:
        return f"{point}{literal(low[0])} {_range(low[1:], high[1:], places)}".rstrip()
    first, last, choices = int(low[0]), int(high[0]), []
    if low[1:] != zeros:
        choices.append(f"{literal(low[0])} {_range(low[1:], nines, places)}".rstrip())
        first += 1
    if high[1:] != nines:
        last -= 1
    if first <= last:
        choices.append(f"[{first}-{last}] {_any(left - 1, places)}".rstrip())
    if high[1:] != nines:
        choices.append(f"{literal(high[0])} {_range(zeros, high[1:], places)}".rstrip())
    return point + either(*choices)


def _any(left: int, places: int) -> str:
    if left == 0:
        return ""
    if left < places or places == 0:
        return f"[0-9]{{{left}}}"
    whole = f"[0-9]{{{left - places}}} " if left > places else ""
    return f'{whole}"." [0-9]{{{places}}}'
