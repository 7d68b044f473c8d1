"""A report of schemathesis becomes faults: none of a short run over the server, some over a document that lies."""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from benchmarks.fuzz import conformance, schema
from benchmarks.fuzz.conformance import Seen
from support.cases import each

from edgeserve.api.routes import ENTRIES

WELL: dict[str, Any] = {"stop_reason": "completed", "failures": [], "errors": []}
FAILED = {"title": "Server error", "count": 2, "operations": ["GET /", "POST /v1/chat"]}


@each(
    ("report", "code", "faults"),
    [
        (WELL, 0, []),
        (WELL | {"failures": [FAILED]}, 1, ["Server error × 2: GET /, POST /v1/chat"]),
        (WELL | {"errors": [{"title": "Hook Error", "count": 1}]}, 1, ["schemathesis: Hook Error × 1"]),
        (WELL, 1, ["schemathesis ended with code 1, and its report names no failure"]),
        ({}, 2, ["schemathesis ended with code 2 before its end (no report)"]),
        (WELL | {"stop_reason": "interrupted"}, 1, ["schemathesis ended with code 1 before its end (interrupted)"]),
    ],
)
def test_a_report_becomes_faults(report: dict[str, Any], code: int, faults: list[str]) -> None:
    assert list(conformance.faults(report, code)) == faults


def test_a_missing_program_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(conformance, "program", lambda: None)
    monkeypatch.setattr("sys.argv", ["schema"])
    with pytest.raises(FileNotFoundError, match="install the extra dev"):
        conformance.check(1, 1)
    with pytest.raises(SystemExit, match="2"):
        schema.main()
    assert conformance.MISSING in capsys.readouterr().err


@pytest.fixture
def command() -> str:
    if (found := conformance.program()) is None:
        pytest.skip(conformance.MISSING)
    return found


@pytest.mark.slow
def test_the_server_keeps_to_its_document(command: str) -> None:
    seen = conformance.check(seed=1, examples=3, phases=["stateful"])
    assert seen.faults == [], "\n".join(seen.words)
    first, whole = seen.reports
    left_out = tomllib.loads(conformance.CONFIG.read_text(encoding="utf-8"))["operations"]
    assert first["operations"]["tested"] == len(ENTRIES) - 1 - len(left_out)  # nor the one that serves the document
    assert whole["phases"]["stateful"]["status"] == "success"
    assert len(seen.held) == 2


class Liar(BaseHTTPRequestHandler):
    """Promises JSON in its document, and fails."""

    document: ClassVar[dict[str, Any]] = {
        "openapi": "3.1.0",
        "info": {"title": "liar", "version": "1"},
        "paths": {"/a": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {}}}}}}},
    }

    def do_GET(self) -> None:
        document = self.path.endswith("openapi.json")
        self.send_response(200 if document else 500)
        self.send_header("Content-Type", "application/json" if document else "text/plain")
        self.end_headers()
        self.wfile.write(json.dumps(self.document).encode() if document else b"no")

    def log_message(self, *words: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def liar() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Liar) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_document_that_lies_is_found_out(command: str, liar: str, tmp_path: Path) -> None:
    seen = Seen(1, 1)
    code = conformance.run(command, liar, tmp_path, 1, ("fuzzing",), seen)
    faults = list(conformance.faults(seen.reports[0], code))
    assert faults == ["Server error × 1: GET /a", "Undocumented status code × 1: GET /a"]
    assert "Received: 500" in seen.words[0]
