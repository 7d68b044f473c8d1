"""Checks of a request head beyond h11's: two HTTP readers must read it in the same way.

A proxy in front of the server may read these differently, and h11 accepts them all:

- Transfer-Encoding beside Content-Length
- bare line feeds and folded lines
- control characters
- any number of header lines
"""

from __future__ import annotations

import re

MAX_BYTES = 16 << 10
"""Bytes of a head. h11 has the same limit for a head that comes in pieces."""
MAX_LINES = 128

END = re.compile(rb"\n\r?\n")
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n|\Z)")
LENGTH = re.compile(rb"\ncontent-length[ \t]*:", re.IGNORECASE)
CODING = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)


def fault(data: bytes) -> tuple[int, str] | None:
    """Status and text of the first fault in the head at the beginning of ``data``; None where there is none yet."""
    end = END.search(data)
    head = data[: end.end()] if end else data
    if len(head) > MAX_BYTES:
        return 431, f"the request's head has more than {MAX_BYTES >> 10} KB: send shorter headers"
    lines = head.count(b"\n")
    if lines > MAX_LINES:
        return 431, f"the request's head has more than {MAX_LINES} lines: send fewer headers"
    if lines != head.count(b"\r\n"):
        return 400, "a line of the request's head ends in a line feed alone: end each with CR LF"
    if CONTROL.search(head):
        return 400, "the request's head holds a control character"
    if b"\n " in head or b"\n\t" in head:
        return 400, "a header of the request goes on in a second line (obs-fold, RFC 9112, 5.2): write it in one"
    return _framing(head) if end else None


def _framing(head: bytes) -> tuple[int, str] | None:
    """The fault of a head whose body has two lengths, which may smuggle a request past a proxy (RFC 9112, 6.1)."""
    if not CODING.search(head):
        return None
    if LENGTH.search(head):
        return 400, "the request has both Content-Length and Transfer-Encoding: send one of them"
    if head.partition(b"\r\n")[0].endswith(b"HTTP/1.0"):
        return 400, "an HTTP/1.0 request has no Transfer-Encoding: send Content-Length"
    return None
