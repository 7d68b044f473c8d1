"""The answer to a scrape: the figures of the server as Prometheus reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.admin import READS
from edgeserve.api.metrics.collector import FiguresCollector
from edgeserve.residency.pool import Pool

MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
"""Prometheus' own form, and OpenMetrics for clients that ask for it."""
PLAIN = f"{MEDIA_TYPES[0]}; version=0.0.4; charset=utf-8"
"""The form that every version of Prometheus reads."""


async def scrape(request: Request) -> Response:
    """All families. A thread writes them, since some hundred lines take a millisecond."""
    pool: Pool = request.app.state.pool
    accept = ", ".join(request.headers.getlist("accept"))
    collector = FiguresCollector(pool, llamacpp=request.app.state.llamacpp_metrics)
    # The library's own choice by ``Accept`` fails on a version that is no number, and repeats the client's text.
    form = openmetrics if MEDIA_TYPES[1] in accept else exposition
    body = await READS.run(functools.partial(_written, collector, form.generate_latest))
    return Response(body, media_type=form.CONTENT_TYPE_LATEST if form is openmetrics else PLAIN)


def _written(collector: FiguresCollector, write: Callable[[CollectorRegistry], bytes]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return write(registry)
