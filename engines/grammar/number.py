"""Numbers between bounds, digit by digit, as GBNF."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

from edgeserve.engines.grammar.rules import Unsayable, either, literal

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

MAX_DIGITS = 15
"""Digits of the longest numbers that every JSON reader reads alike."""
MAX_WHOLE = 2**53 - 1
"""The largest whole number of which this holds, too (RFC 8259, section 6)."""

MAX_MULTIPLES = 200
"""Multiples of one number, each written out."""
FRACTION = 4
"""Digits after the point of a bounded number, unless its bounds have more."""


def of_schema(kind: str, schema: Mapping[str, Any]) -> str:
    """The numbers of a schema of this kind, "number" or "integer", which has at least one keyword of numbers.

    Raises Unsayable.
    """
    low, high, over, under = (Decimal(repr(schema[key])) if key in schema else None for key in BOUNDS)
    above, below = over is not None, under is not None
    if over is not None and low is not None and low > over:
        above = False
    if under is not None and high is not None and high < under:
        below = False
    bounds = _Bounds(over if above else low, under if below else high, above, below)
    whole = kind == "integer"
    if "multipleOf" in schema:
        return _multiples(Decimal(repr(schema["multipleOf"])), bounds, schema["multipleOf"], whole=whole)
    return bounded(*bounds[:2], above=bounds.above, below=bounds.below, whole=whole)


class _Bounds(NamedTuple):
    """As the arguments of ``bounded``."""

    low: Decimal | None
    high: Decimal | None
    above: bool
    below: bool


def _multiples(step: Decimal, bounds: _Bounds, given: Any, *, whole: bool) -> str:
    """The multiples of a step, which is a power of ten, or has few multiples between the bounds. Raises Unsayable.

    ``given``: the step as the schema has it.
    """
    if step <= 0:
        raise Unsayable(f"has a multipleOf of {given}, which is not above 0")
    digits = step.normalize().as_tuple()
    places = -int(digits.exponent)
    if digits.digits == (1,) and 0 <= places <= FRACTION:
        fraction = 0 if whole else places
        return bounded(*bounds[:2], above=bounds.above, below=bounds.below, whole=whole, places=fraction)
    low, high = bounds.low, bounds.high
    if whole and step != int(step):
        raise Unsayable(f"uses multipleOf {given} for whole numbers, which is not supported", "multipleOf", given)
    if low is None or high is None or (high - low) / step > MAX_MULTIPLES:
        text = f"uses multipleOf {given}, which is supported for 1, 0.1, 0.01 and between near bounds only"
        raise Unsayable(text, "multipleOf", given)
    first = int((low / step).to_integral_value(ROUND_CEILING))
    last = int((high / step).to_integral_value(ROUND_FLOOR))
    found = [step * number for number in range(first, last + 1)]
    found = [one for one in found if not (bounds.above and one == low) and not (bounds.below and one == high)]
    if not found:
        raise Unsayable("leaves no number between its bounds")
    return either(*(literal(format(one.normalize(), "f")) for one in found))


@functools.lru_cache(maxsize=64)
def bounded(
    low: Decimal | None,
    high: Decimal | None,
    *,
    above: bool = False,
    below: bool = False,
    whole: bool = False,
    places: int | None = None,
) -> str:
    """Numbers from ``low`` to ``high``; ``above`` excludes ``low``, ``below`` excludes ``high``.

    ``places``: digits after the point at most; None: as many as the bounds have, or FRACTION. Bounds beyond the numbers
    that every reader reads alike are those numbers. Raises Unsayable when there is no such number, or when the bounds
    have too many digits.
    """
    limit = Decimal(MAX_WHOLE if whole else 10**MAX_DIGITS - 1)
    if low is not None and low < -limit:
        low, above = -limit, False
    if high is not None and high > limit:
        high, below = limit, False
    given = [bound for bound in (low, high) if bound is not None]
    if any(abs(bound) > limit for bound in given):
        raise Unsayable(f"has a bound of more than {MAX_DIGITS} digits")
    most = 0 if whole else max([FRACTION, *(-_exponent(bound) for bound in given)]) if places is None else places
    if most > MAX_DIGITS:
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
