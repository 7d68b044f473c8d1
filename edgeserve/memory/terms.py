"""The terms on which a request asks for memory."""

from __future__ import annotations

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of one request.

    - ``cancel``: set when nobody wants the request any more
    - ``arrived``: when the request came, on the accounts' clock; None: now
    - ``whole``: it needs the whole context. An engine that has less steps down first, where it fits once idle engines
      make way, and those whose answers rest
    - ``resumed``: a part of the answer has been given. It is refused as late as beside others' answers, and keeps the
      context that it had
    """

    cancel: Cancel | None = None
    arrived: float | None = None
    whole: bool = False
    resumed: bool = False


NEW = Terms()
"""A new request that nobody cancels."""
