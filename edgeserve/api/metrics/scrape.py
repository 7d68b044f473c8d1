"""The answer to a scrape: the figures of the server as Prometheus reads them."""

from __future__ import annotations

import functools

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.admin import READS
from edgeserve.api.metrics.collector import FiguresCollector
from edgeserve.residency.pool import Pool

MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
"""Prometheus' own form, and OpenMetrics for clients that ask for it."""


async def scrape(request: Request) -> Response:
    """All families. A thread writes them, since some hundred lines take a millisecond."""
    pool: Pool = request.app.state.pool
    accept = ", ".join(request.headers.getlist("accept"))
    collector = FiguresCollector(pool, llamacpp=request.app.state.llamacpp_metrics)
    body, media_type = await READS.run(functools.partial(_written, collector, accept))
    return Response(body, media_type=media_type)


def _written(collector: FiguresCollector, accept: str) -> tuple[bytes, str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    encoder, media_type = choose_encoder(accept)
    return encoder(registry), media_type
