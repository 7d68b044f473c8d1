"""Whether somebody collects traces, by the environment."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from edgeserve.figures.spans import NoTraces, Traces

log = logging.getLogger("edgeserve.traces")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def collecting(environ: Mapping[str, str]) -> Traces:
    """Traces for the collector that a variable of ``ENDPOINTS`` names; else, and without the extra, none."""
    endpoint = next((environ[name] for name in ENDPOINTS if environ.get(name)), "")
    if not endpoint or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NoTraces()
    try:
        from edgeserve.figures.otel import OtelTraces
    except ImportError as error:
        text = "traces are not sent to %s: %s is not installed; pip install 'edgeserve[otel]'"
        log.warning(text, endpoint.rpartition("@")[2], error.name)  # an address may hold a password
        return NoTraces()
    return OtelTraces(environ)
