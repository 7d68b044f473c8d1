"""GET /cluster/status: the state of the peers of a server."""

from __future__ import annotations

import pytest
from benchmarks.process import free_port
from support.server import fake_pool, serving


def test_a_server_without_peers_says_that_there_is_no_cluster() -> None:
    with serving(fake_pool(["llm"])) as running:
        answer = running.client.get("/cluster/status")
        assert (answer.status_code, answer.json()) == (200, {"pressure": "LOW", "nodes": [], "silent": {}})


@pytest.mark.usefixtures("patient")
def test_a_server_shows_its_peers_and_those_that_are_silent() -> None:
    gone = f"127.0.0.1:{free_port()}"
    with serving(fake_pool(["asr"]), api_key="secret-key") as other:
        there = other.url.removeprefix("http://").rstrip("/")
        with serving(fake_pool(["llm"]), api_key="secret-key", peers=(there, gone)) as running:
            assert running.client.get("/cluster/status").status_code == 401
            running.client.headers["Authorization"] = "Bearer secret-key"
            body = running.client.get("/cluster/status").raise_for_status().json()
            assert [one["name"] for one in body["nodes"]] == [there]
            assert [one["job"] for one in body["nodes"][0]["models"]] == ["asr"]
            assert body["nodes"][0]["room"] <= body["nodes"][0]["budget"]
            assert list(body["silent"]) == [gone]
