"""llama-server's ``timings`` of an answer. User interfaces show tokens a second from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from edgeserve.messages import FinishEvent, PromptEvent


class Timings:
    """Times the parts of one answer. ``clock`` in seconds. The prompt's time begins with its turn on a hot engine."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun: float | None = None
        self._first: float | None = None

    def begin(self) -> None:
        """Called on the host's thread as the answer has its turn; the first call counts."""
        if self._begun is None:
            self._begun = self._clock()

    def token(self) -> None:
        """Called for each piece of the answer."""
        if self._first is None:
            self._first = self._clock()

    def progress(self, event: PromptEvent) -> dict[str, Any]:
        """llama-server's ``prompt_progress``: tokens, and milliseconds since the turn began."""
        return {
            "total": event.tokens,
            "cache": event.cached_tokens,
            "processed": event.cached_tokens + event.computed_tokens,
            "time_ms": 0.0 if self._begun is None else round(1000 * (self._clock() - self._begun), 3),
        }

    def told(self, finish: FinishEvent) -> dict[str, Any]:
        """The figures at the end of the answer; llama-server's names, milliseconds."""
        now = self._clock()
        first = now if self._first is None else self._first
        begun = first if self._begun is None else self._begun
        read = finish.prompt_tokens - finish.cached_tokens
        return {
            "cache_n": finish.cached_tokens,
            **_part("prompt", read, first - begun),
            **_part("predicted", finish.completion_tokens, now - first),
        }


def _part(name: str, tokens: int, seconds: float) -> dict[str, Any]:
    return {
        f"{name}_n": tokens,
        f"{name}_ms": round(1000 * seconds, 3),
        f"{name}_per_token_ms": round(1000 * seconds / tokens, 3) if tokens else 0.0,
        f"{name}_per_second": round(tokens / seconds, 3) if seconds > 0 else 0.0,
    }
