"""The last line of a request in the log, its trace, and the headers of its answer."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server import Running, fake_pool, serving, until
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from edgeserve import logs

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
CHAT = {"messages": [{"role": "user", "content": "one two three four"}], "max_tokens": 3}


@pytest.fixture
def lines(client: Any) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """All lines of the log in JSON, as the server writes them."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    handler.addFilter(logs.add_request)
    logger = logging.getLogger("edgeserve")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


def last(lines: Callable[[], list[dict[str, Any]]], name: str) -> dict[str, Any]:
    """The last line of a request, which stands behind the last byte of its answer."""

    def found() -> list[dict[str, Any]]:
        return [one for one in lines() if one["logger"] == "edgeserve.access" and one["request_id"] == name]

    until(lambda: bool(found()))
    (line,) = found()
    return line


def test_an_answer_of_a_model_tells_its_times_and_tokens(running: Running, lines: Any) -> None:
    answer = running.client.post("/v1/chat/completions?secret=1", json=CHAT, headers={"X-Request-Id": "one"})
    usage = answer.json()["usage"]
    line = last(lines, "one")
    about = {"engine": "llm", "model": "llm", "method": "POST", "path": "/v1/chat/completions", "status": 200}
    assert line.items() >= {**about, "client": "127.0.0.1", "level": "info"}.items()
    assert line["completion_tokens"] == usage["completion_tokens"] == 3
    assert line["prompt_tokens"] == usage["prompt_tokens"]
    assert 0 <= line["queue_ms"] <= line["ttft_ms"] <= line["duration_ms"]
    assert "trace_id" not in line
    assert "traceresponse" not in answer.headers
    assert line["ts"].endswith("Z")


def test_a_request_without_a_model_tells_of_none(running: Running, lines: Any) -> None:
    running.client.get("/version", headers={"X-Request-Id": "two"})
    line = last(lines, "two")
    assert line["status"] == 200
    assert not {"engine", "model", "queue_ms", "ttft_ms", "prompt_tokens"} & set(line)


def test_a_trace_goes_into_every_line_and_back(running: Running, lines: Any) -> None:
    headers = {"X-Request-Id": "three", "traceparent": PARENT}
    answer = running.client.post("/v1/chat/completions", json={**CHAT, "colour": "red"}, headers=headers)
    version, trace, span, flags = answer.headers["traceresponse"].split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")
    assert span not in PARENT
    assert last(lines, "three")["trace_id"] == TRACE
    told = [one for one in lines() if one["request_id"] == "three"]
    assert len(told) > 1, "the unknown field has a line of its own"
    assert {one["trace_id"] for one in told} == {TRACE}


@pytest.mark.parametrize("value", ["00-1", PARENT.upper(), PARENT + "-x"])
def test_a_wrong_trace_is_ignored(running: Running, lines: Any, value: str) -> None:
    answer = running.client.get("/version", headers={"X-Request-Id": "four", "traceparent": value})
    assert answer.status_code == 200
    assert "traceresponse" not in answer.headers
    assert "trace_id" not in last(lines, "four")


def test_a_stream_tells_them_too(running: Running, lines: Any) -> None:
    headers = {"X-Request-Id": "five"}
    with running.client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}, headers=headers) as answer:
        answer.read()
    assert last(lines, "five")["completion_tokens"] == 3


def test_a_key_is_in_no_line(lines: Any) -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        for headers in ({"Authorization": "Bearer sesame"}, {"x-api-key": "sesame"}, {"Authorization": "Bearer wrong"}):
            running.client.get("/v1/models?api_key=sesame", headers={**headers, "X-Request-Id": "key"})
        until(lambda: sum(one["request_id"] == "key" for one in lines()) == 3)
    assert not any("sesame" in json.dumps(one) or "wrong" in json.dumps(one) for one in lines())


def test_a_refused_request_is_counted_by_no_route(running: Running) -> None:
    count = running.pool.figures.counters["requests_total"]
    before = dict(count).get(("", "other", "404"), 0)
    running.client.get("/nowhere")
    until(lambda: dict(count).get(("", "other", "404"), 0) == before + 1)


def test_a_websocket_is_one_request(running: Running, lines: Any) -> None:
    count = running.pool.figures.counters["requests_total"]
    labels = ("", "/v1/transcribe/live", "101")
    before = dict(count).get(labels, 0)
    address = f"{running.url.rstrip('/').replace('http', 'ws')}/v1/transcribe/live"
    with connect(address, additional_headers={"X-Request-Id": "socket", "traceparent": PARENT}) as socket:
        assert socket.response is not None
        assert TRACE in socket.response.headers["traceresponse"]
    assert last(lines, "socket")["status"] == 101
    until(lambda: dict(count).get(labels, 0) == before + 1)


@pytest.mark.parametrize("path", ["nowhere", "v1/chat", "v1/live/x"])
def test_a_websocket_without_a_route_is_no_failure_of_the_server(running: Running, lines: Any, path: str) -> None:
    address = running.url.rstrip("/").replace("http", "ws")
    named = {"X-Request-Id": path.replace("/", "-")}
    with pytest.raises(InvalidStatus, match="403"), connect(f"{address}/{path}", additional_headers=named):
        pass
    assert last(lines, path.replace("/", "-"))["status"] == 403
