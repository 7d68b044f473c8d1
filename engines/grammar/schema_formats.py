"""Values of ``format`` that a grammar enforces, as expressions; other values are annotations."""

from __future__ import annotations

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{1,4}}"
_LONG, _SHORT = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])", r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
_MONTH_DAY = rf"(?:{_LONG}|{_SHORT}|02-(?:0[1-9]|1\d|2[0-8]))"
_LEAP_DAY = r"(?:[12]\d(?:0[48]|[2468][048]|[13579][26])|(?:12|16|20|24|28)00)-02-29"
_DATE = rf"(?:[12]\d{{3}}-{_MONTH_DAY}|{_LEAP_DAY})"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_TIME = rf"{_CLOCK}(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "duration": r"P(?:\d{1,4}W|\d{1,4}D(?:T\d{1,4}H)?|T\d{1,4}[HMS])",
    "email": rf"[a-z0-9][a-z0-9_+-]{{0,20}}(?:\.[a-z0-9_+-]{{1,20}}){{0,3}}@{_HOST}",
    "hostname": _HOST,
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "ipv6": r"(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "uri": rf"https?://{_HOST}(?::[1-9]\d{{1,3}})?(?:/[A-Za-z0-9._~-]{{1,40}}){{0,8}}/?",
}
"""Times by RFC 3339 (without leap seconds), plain addresses by RFC 5322, URIs by RFC 3986 with http and https."""

KNOWN_PATTERNS = {
    # Zod 4, z.email(): looks ahead for dots at the beginning and in a row.
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$": (
        rf"[a-z0-9][a-z0-9_+-]{{0,20}}(?:\.[a-z0-9_+-]{{1,20}}){{0,3}}@{_LABEL}(?:\.{_LABEL}){{0,3}}\.[a-z]{{2,8}}"
    ),
    # Pydantic, Decimal: looks ahead for a digit.
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$": r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?",
}
"""Patterns that generators of schemas write and that no grammar expresses, with a narrower expression for each."""


def known(pattern: str) -> str:
    """The expression for a pattern: a narrower one where the pattern is among ``KNOWN_PATTERNS``."""
    return KNOWN_PATTERNS.get(pattern, pattern)
