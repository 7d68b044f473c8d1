"""Traces sent to a collector over OTLP (the extra ``otel``). Imported only where the environment names a collector.

OpenTelemetry's own variables set it up: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME,
OTEL_TRACES_SAMPLER and others (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

import edgeserve
from edgeserve.figures.spans import Attributes
from edgeserve.figures.trace import Trace

LAST_SECONDS = 2.0
"""Longest time at the end of the server in which collected spans are sent."""


class RequestSpan:
    """The span of one request; a ``Span``."""

    def __init__(self, tracer: Tracer, span: OtelSpan) -> None:
        self._tracer, self._span = tracer, span
        self._context = set_span_in_context(span)
        self._since_1970 = time.time_ns() - time.monotonic_ns()  # once, so that the parts of a request fit together
        here = span.get_span_context()
        self.trace = Trace(f"{here.trace_id:032x}", f"{here.span_id:016x}", int(here.trace_flags))

    def child(self, name: str, began: float, ended: float, attributes: Attributes) -> None:
        if self._span.is_recording():
            start, end = (self._since_1970 + int(1e9 * moment) for moment in (began, ended))
            self._tracer.start_span(name, self._context, attributes=dict(attributes), start_time=start).end(end)

    def end(self, attributes: Attributes, *, failed: bool) -> None:
        method, route = attributes.get("http.request.method"), attributes.get("http.route")
        self._span.update_name(f"{method} {route}")
        self._span.set_attributes(dict(attributes))
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class OtelTraces:
    """Sends spans in batches, on a thread of the SDK. A collector that does not answer costs requests nothing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        named = "OTEL_SERVICE_NAME" in environ or "service.name" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        about = {"service.version": edgeserve.__version__} | ({} if named else {"service.name": "edgeserve"})
        self._provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("edgeserve", edgeserve.__version__)

    def begin(self, name: str, parent: Trace | None) -> RequestSpan:
        span = self._tracer.start_span(name, _context(parent), kind=SpanKind.SERVER)
        return RequestSpan(self._tracer, span)

    def close(self) -> None:
        """Send what is left. The SDK tries a collector that is gone for longer than the server's end may take."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(LAST_SECONDS)


def _context(parent: Trace | None) -> Context:
    if parent is None:
        return Context()
    flags = TraceFlags(parent.flags & TraceFlags.SAMPLED)
    above = SpanContext(int(parent.trace, 16), int(parent.span, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(above), Context())
