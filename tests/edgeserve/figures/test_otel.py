"""Spans reach a collector over OTLP, with their parts and their parents."""

from __future__ import annotations

import http.server
import importlib.util
import itertools
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.server import fake_pool, serving, until

from edgeserve.figures.collecting import collecting

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("opentelemetry") is None, reason="the extra otel is not installed: no spans to send"
    ),
]

TRACE, ABOVE = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SLACK = 5_000_000_000
"""Nanoseconds between two looks at two clocks, at most."""
CHAT = {"messages": [{"role": "user", "content": "one two three four"}], "max_tokens": 3}


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the spans that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []


class Receiver(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        assert self.path == "/v1/traces"
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for one in sent.resource_spans:
            self.server.resources.append({item.key: item.value.string_value for item in one.resource.attributes})
            self.server.spans += [span for scope in one.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *values: Any) -> None: ...


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        yield collector
        collector.shutdown()
        thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def traced(headers: dict[str, str]) -> str:
    """Ask a server for an answer, then end it; returns the header of the answer."""
    with serving(fake_pool(["llm"]), traces=collecting(os.environ)) as running:
        answer = running.client.post("/v1/chat/completions", json=CHAT, headers=headers)
        assert answer.status_code == 200
        return answer.headers["traceresponse"]


def test_a_request_and_its_parts_stand_below_the_clients_span(collector: Collector) -> None:
    began = time.time_ns()
    told = traced({"traceparent": f"00-{TRACE}-{ABOVE}-01"})
    until(lambda: len(collector.spans) == 5)
    spans = {one.name: one for one in collector.spans}
    assert set(spans) == {"POST /v1/chat/completions", "queue", "transition", "prefill", "decode"}
    request = spans["POST /v1/chat/completions"]
    assert {one.trace_id.hex() for one in collector.spans} == {TRACE}
    assert request.parent_span_id.hex() == ABOVE
    assert told == f"00-{TRACE}-{request.span_id.hex()}-01"
    parts = [spans[name] for name in ("queue", "prefill", "decode")]
    assert {one.parent_span_id for one in parts} == {request.span_id}
    for one in collector.spans:
        assert began - SLACK <= one.start_time_unix_nano <= one.end_time_unix_nano <= time.time_ns() + SLACK
    for before, after in itertools.pairwise(parts):
        assert before.end_time_unix_nano == after.start_time_unix_nano
    figures = attributes(request)
    assert figures["gen_ai.request.model"] == "llm"
    assert figures["gen_ai.usage.output_tokens"] == attributes(spans["decode"])["gen_ai.usage.output_tokens"] == 3
    assert figures["http.response.status_code"] == 200
    assert attributes(spans["transition"])["edgeserve.to"] == "hot"
    assert collector.resources[0]["service.name"] == "edgeserve"


def test_without_a_trace_of_the_client_the_server_begins_one(collector: Collector) -> None:
    told = traced({})
    until(lambda: len(collector.spans) == 5)
    assert {one.trace_id.hex() for one in collector.spans} == {told.split("-")[1]}


def test_a_trace_that_the_client_does_not_sample_is_not_sent(collector: Collector) -> None:
    assert traced({"traceparent": f"00-{TRACE}-{ABOVE}-00"}).endswith("-00")
    assert collector.spans == []


def test_a_collector_that_is_gone_costs_answers_nothing(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert traced({"traceparent": f"00-{TRACE}-{ABOVE}-01"}).startswith(f"00-{TRACE}-")
