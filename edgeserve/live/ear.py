"""Hypotheses of live sessions from the speech engine, each on a lease of its own.

The ear makes one hypothesis of a model and a client at a time. So all sessions of a client together take one place in
its queue, and hold up no other client's. Three clients at most have a place.
Sessions whose utterance has ended go first. A session gives its sound when its turn has come, so that the sound is
never old.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest
from edgeserve.live.turns import Turns, Urgent
from edgeserve.messages import Event, SegmentEvent, TranscribeRequest, Word
from edgeserve.residency.pool import Pool

LEFT_OUT: dict[str | None, dict[str, Any]] = {
    "timestamp_granularities": {"word_timestamps": False},
    "prompt": {"prompt": None},
}
"""Changes that make a refused request acceptable, by the field that the engine's error names."""
NEWEST = 0.3
"""Weight of the latest hypothesis in the average cost."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one session. ``keep_alive`` as in ``Pool.lease``. ``model``: id; empty: the default."""

    language: str | None = None
    prompt: str | None = None
    keep_alive: float | None = None
    model: str = ""


Question = Callable[[], TranscribeRequest | None]


class Ear:
    """The one listener of all sessions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._costs: dict[str, float] = {}
        self._turns: dict[str, Turns] = {}
        self._left_out: dict[str, dict[str, Any]] = {}
        """Changes that make requests acceptable. This and the others are by model: a slow one holds up no other's
        sessions."""

    def cost(self, options: Options) -> float:
        """The average time of the model's latest hypotheses in seconds, its other work included."""
        return self._costs.get(self._model(options), 0.0)

    async def hear(self, question: Question, options: Options, urgent: Urgent) -> list[Word] | None:
        """The words in the sound that ``question`` gives when the turn has come, with times from its start.

        None where ``question`` has nothing to hear any more. Raises the errors of a lease and of the engine.
        """
        model = self._model(options)
        async with self._turns.setdefault(model, Turns()).turn(urgent):
            if (request := question()) is None:
                return None
            left_out = self._left_out.setdefault(model, {})
            while True:
                started = time.monotonic()
                try:
                    words = await self._ask(model, dataclasses.replace(request, **left_out), options.keep_alive)
                    cost = self._costs.get(model, 0.0)
                    self._costs[model] = cost + NEWEST * (time.monotonic() - started - cost)
                    return words
                except InvalidRequest as error:
                    change = LEFT_OUT.get(error.param, left_out)
                    wanted_by_client = error.param == "prompt" and options.prompt
                    if wanted_by_client or change.items() <= left_out.items():
                        raise
                    left_out |= change

    def _model(self, options: Options) -> str:
        return options.model or self._pool.directory.find("", ("asr",)) or "asr"

    async def _ask(self, model: str, request: TranscribeRequest, keep_alive: float | None) -> list[Word]:
        async with await self._pool.lease(model, keep_alive) as lease:
            return [word async for event in lease.run(request) for word in words_of(event)]


def words_of(event: Event) -> Iterator[Word]:
    """The words of a segment. Where the engine gives no times, letters share the segment's time equally."""
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
