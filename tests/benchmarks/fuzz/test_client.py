from __future__ import annotations

import json

import pytest
from benchmarks.fuzz.case import Ask, Talk
from benchmarks.fuzz.client import Client, known, request
from benchmarks.fuzz.talk import TEXT, frame
from support.cases import each
from support.server import fake_pool, serving

ASK = Ask("GET", "/")


def answer(status: int, body: object = None, *, head: str = "", code: str = "") -> bytes:
    if code:
        body = {"error": {"message": "why", "type": "server_error", "code": code, "param": None}}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", head or f"content-length: {len(data)}", "", ""]
    return "\r\n".join(lines).encode() + data


def streamed(event: object) -> bytes:
    data = f"event: x\ndata: {json.dumps(event)}\n\n".encode()
    return answer(200, data).replace(b"application/json", b"text/event-stream")


@each(
    ("data", "fault"),
    [
        (answer(200, {"a": 1}), ""),
        (answer(400, code="invalid_request"), ""),
        (answer(503, code="queue_full"), ""),
        (answer(500, code="internal_error"), "500 internal_error: why"),
        (answer(500, code="engine_failure"), "500 engine_failure: why"),
        (answer(404, code="invalid_request"), "404 invalid_request is not in docs/api/errors.md"),
        (answer(400, code="strange"), "400 strange is not in docs/api/errors.md"),
        (answer(404, {"error": "gone"}), ""),
        (answer(500, {"error": "broken"}), "500 without a code: broken"),
        (answer(200, b'{"done":false}\n{"error":"cut"}\n').replace(b"/json", b"/x-ndjson"), "200 without a code: cut"),
        (streamed({"response": {"error": None}}), ""),
        (streamed({"response": {"error": {"code": "engine_failure", "message": "why"}}}), "200 engine_failure: why"),
        (streamed({"error": {"code": "engine_failure", "message": "why"}}), "200 engine_failure: why"),
        (answer(400, {"detail": "no"}), "without the shape of an error"),
        (answer(200, b'{"a": NaN}'), "JSON that is none"),
        (answer(200, {"a": 1}, head="content-length: 99"), "8 of 99 bytes"),
        (answer(200, b'5\r\n{"a":', head="transfer-encoding: chunked"), "the answer was cut"),
        (answer(200, b'7\r\n{"a":1}\r\n0\r\n\r\n', head="transfer-encoding: chunked"), ""),
        (b"", "no answer"),
    ],
)
def test_faults_of_answers(data: bytes, fault: str) -> None:
    faults = Client(0).judged(ASK, data).faults
    assert fault in " ".join(faults)
    assert bool(faults) == bool(fault)


def test_codes_have_the_statuses_of_the_page() -> None:
    assert known()["invalid_request"] == {400, 405, 426, 431}
    assert known()["queue_full"] == {503}


def test_a_length_of_the_case_replaces_the_right_one() -> None:
    assert request(Ask("POST", "/a", b"12", "b", [("Content-Length", "5")])).endswith(
        b"Content-Length: 5\r\nConnection: close\r\nContent-Type: b\r\n\r\n12"
    )


@pytest.mark.unforeseen
def test_a_server_that_fails_is_found_out() -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("as arranged")

    with serving(fake_pool(["asr"])) as running:
        client = Client(running.client.base_url.port or 80)
        running.app.state.sessions.using = fail
        flush = client.send(Talk("/v1/transcribe/live", frame(TEXT, b'{"type": "flush"}')))
        assert flush.faults == ["closed with 1011: b''"]
        running.app.state.sessions.start = fail
        assert "500 internal_error" in client.send(Ask("POST", "/v1/transcribe/stream")).faults[0]
