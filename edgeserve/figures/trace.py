"""The trace that a request belongs to: W3C Trace Context (https://www.w3.org/TR/trace-context/)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

from edgeserve.dataclass import dataclass

HEADER = "traceparent"
ANSWER = "traceresponse"
"""Header of answers; Trace Context Level 2."""
FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
SAMPLED = 1
LONGEST = 512
"""Bytes of a header. A later version may be longer than 55."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A place in a trace. ``trace`` has 32, ``span`` 16 lowercase hexadecimal digits."""

    trace: str
    span: str
    flags: int = 0

    @property
    def sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def below(self) -> Trace:
        """A new span of the same trace, for this server's part of the work."""
        return Trace(self.trace, secrets.token_hex(8), self.flags & SAMPLED)

    def __str__(self) -> str:
        """As a header."""
        return f"00-{self.trace}-{self.span}-{self.flags:02x}"


def read(headers: Iterable[tuple[bytes, bytes]]) -> Trace | None:
    """The trace that the headers of a request name; None where they name none, two, or one in a wrong form."""
    given = [value for name, value in headers if name == HEADER.encode()]
    found = FORM.fullmatch(given[0].strip(b" \t")) if len(given) == 1 and len(given[0]) <= LONGEST else None
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None) or not (int(trace, 16) and int(span, 16)):
        return None
    return Trace(trace.decode(), span.decode(), int(flags, 16))
