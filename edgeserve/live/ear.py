"""Hypotheses of live sessions from the speech engine, each on a lease of its own.

One at a time for all sessions: together they take one place in the engine's queue. Those whose utterance has ended go
first, and each says only when its turn has come what is to be heard, so that nothing old is listened to.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from edgeserve.errors import InvalidRequest
from edgeserve.live.turns import Turns, Urgent
from edgeserve.messages import Event, SegmentEvent, TranscribeRequest, Word
from edgeserve.residency.pool import Pool

LEFT_OUT: dict[str | None, dict[str, Any]] = {
    "timestamp_granularities": {"word_timestamps": False},
    "prompt": {"prompt": None},
}
"""What an engine may refuse and a session can do without, by the field that its refusal names."""
NEWEST = 0.3
"""The weight of the latest hypothesis in what one costs."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of one session. ``keep_alive`` as in Pool.lease."""

    language: str | None = None
    prompt: str | None = None
    keep_alive: float | None = None


Question = Callable[[], TranscribeRequest | None]


class Ear:
    """``cost``: seconds that a hypothesis takes of late, with what else the engine does meanwhile."""

    def __init__(self, pool: Pool) -> None:
        self.cost = 0.0
        self._pool = pool
        self._turns = Turns()
        self._without: dict[str, Any] = {}

    async def hear(self, question: Question, options: Options, urgent: Urgent) -> list[Word] | None:
        """Words with times from the start of the sound that ``question`` gives when the turn has come; None where
        there is nothing to be heard any more.

        Raises what a lease and the engine raise.
        """
        async with self._turns.turn(urgent):
            if (request := question()) is None:
                return None
            while True:
                started = time.monotonic()
                try:
                    words = await self._ask(dataclasses.replace(request, **self._without), options.keep_alive)
                    self.cost += NEWEST * (time.monotonic() - started - self.cost)
                    return words
                except InvalidRequest as error:
                    change = LEFT_OUT.get(error.param, self._without)
                    wanted_by_client = error.param == "prompt" and options.prompt
                    if wanted_by_client or change.items() <= self._without.items():
                        raise
                    self._without |= change

    async def _ask(self, request: TranscribeRequest, keep_alive: float | None) -> list[Word]:
        async with await self._pool.lease("asr", keep_alive) as lease:
            return [word async for event in lease.run(request) for word in words_of(event)]


def words_of(event: Event) -> Iterator[Word]:
    """The words of a segment; where the engine does not time them, by their share of its letters."""
    if not isinstance(event, SegmentEvent):
        return
    if event.words:
        yield from event.words
        return
    texts = re.findall(r"\s*\S+", event.text)
    ends = list(itertools.accumulate(len(text) for text in texts))
    pace = (event.end - event.start) / max(1, ends[-1] if ends else 0)
    for text, end in zip(texts, ends, strict=True):
        yield Word(event.start + pace * (end - len(text)), event.start + pace * end, text)
