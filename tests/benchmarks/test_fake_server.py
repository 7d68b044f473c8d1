"""The server of the overhead benchmark, on a fake engine."""

from __future__ import annotations

import http.client
import json

import pytest
from benchmarks import fake_server

pytestmark = pytest.mark.slow


def test_it_answers() -> None:
    with fake_server.serving(2) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/v1/chat", json.dumps({"prompt": "over and out"}))
        assert json.loads(connection.getresponse().read()) == {"text": "over and out"}
        connection.close()
