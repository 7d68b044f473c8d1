"""GET /memory/feed: the memory timeline as events, first the past, then each second and each happening as it comes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api import admin, sse
from edgeserve.api.admission import ADMISSION, Admission
from edgeserve.api.auth import client_of
from edgeserve.api.fields import Fields
from edgeserve.api.limits import limits_of
from edgeserve.api.manage.stream import EventStream, Woken
from edgeserve.api.places import Place, Places
from edgeserve.api.schema import Strict
from edgeserve.api.values import Integer
from edgeserve.engine import Rung
from edgeserve.memory.pressure import Level
from edgeserve.memory.timeline import SAMPLES, Happening, Point, Timeline
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool

BATCH = 300
"""Samples in one event: 10 KB, made in 3 ms."""
FEW = 30
"""Samples that the event loop writes itself."""
PAST = Aside("the past of the memory", threads=1)
"""Writes the samples of the past: six batches for each client that connects, of which it may do many in a second."""
PING = b": still here\n\n"
"""A comment, for a proxy that closes silent connections."""
SAMPLE = ("at", "pressure", "percent", "private_mb", "mapped_mb", "budget_mb", "available_mb", "total_mb", "models")
MODEL = ("rung", "private_mb", "mapped_mb", "leases", "uses")
START = {
    "type": "start",
    "sample": SAMPLE,
    "model": MODEL,
    "pressure": [level.name for level in Level],
    "rungs": [rung.name.lower() for rung in Rung],
    "keeps": SAMPLES,
}


class FeedQuery(Strict):
    """The query of GET /memory/feed."""

    past = Integer("seconds of the past to begin with", 0, SAMPLES, default=SAMPLES)


async def feed(request: Request) -> Response:
    """Samples and happenings until the client leaves or the server ends. Raises Busy."""
    asked = FeedQuery(Fields(dict(request.query_params), written=True), limits_of(request))
    listeners: Places = request.app.state.listeners
    with contextlib.ExitStack() as held:
        mine = held.enter_context(listeners.one(client_of(request.scope)))
        admission: Admission = request.scope[ADMISSION]
        return EventStream(_events(request.app.state.pool, asked.past, mine, admission), held.pop_all().close)


async def _events(pool: Pool, past: int, mine: Place, admission: Admission) -> AsyncGenerator[bytes, None]:
    timeline, woken = pool.governor.timeline, Woken()
    place, shown = timeline.place(past), -1
    with timeline.listening(woken.wake):
        yield sse.event(START)
        while True:
            # A reader that was slow gets all that came meanwhile in one event; nothing is kept for it.
            while points := timeline.read(place, BATCH):
                yield _samples(timeline, points) if len(points) < FEW else await PAST.run(_samples, timeline, points)
            if happened := timeline.happenings(place):
                yield sse.event({"type": "events", "events": [_happening(timeline, one) for one in happened]})
            if shown != timeline.changes:
                shown = timeline.changes
                yield sse.event({"type": "models", "models": await admin.model_rows(pool)})
            if why := _end(pool, mine, admission):
                yield sse.event({"type": "end", "reason": why})
                return
            if not await woken.wait():
                yield PING


def _end(pool: Pool, mine: Place, admission: Admission) -> str:
    """Why the feed ends now; empty where it continues."""
    if pool.ending:
        return "the server is shutting down"
    return "another client has this place: all are taken" if mine.lost.is_set() else admission.over


def _samples(timeline: Timeline, points: Sequence[Point]) -> bytes:
    return sse.event({"type": "samples", "samples": [_sample(timeline, one) for one in points]})


def _sample(timeline: Timeline, point: Point) -> list[Any]:
    row = [round(timeline.wall(point.at), 1), *point.sample]
    return [*row, point.models] if point.models else row


def _happening(timeline: Timeline, one: Happening) -> dict[str, Any]:
    return {"at": round(timeline.wall(one.at), 1), "kind": one.kind, "model": one.model, **one.details}
