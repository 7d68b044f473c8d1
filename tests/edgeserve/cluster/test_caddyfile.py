"""The Caddyfile: its text, and a real Caddy before real servers where the command ``caddy`` is installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from benchmarks.cluster_boxes import caddy, nodes
from benchmarks.process import free_port
from support.asked import Asked, hears, says
from support.server import fake_pool, serving, until
from support.sounds import FORMS, encoded, melody
from websockets.sync.client import connect

from edgeserve.api.routes import ENTRIES
from edgeserve.cluster.caddyfile import caddyfile
from edgeserve.cluster.peers import Peer, read_peers
from edgeserve.errors import ConfigError

CADDY = shutil.which("caddy")
with_caddy = [pytest.mark.slow, pytest.mark.boxes("Caddy")]
OWNER = [one.path for one in ENTRIES if one.owner]
CLIENTS = 4
BOXES = read_peers(["box1:8080", "box2:8080"])


def test_it_names_all_nodes_and_binds_one_address() -> None:
    text = caddyfile(BOXES, Peer("127.0.0.1", 8000), OWNER)
    assert "to http://box1:8080 http://box2:8080\n" in text
    assert "http://:8000 {\n\tbind 127.0.0.1\n" in text
    assert "health_uri /v1/health\n" in text
    assert text.count("{") == text.count("}")


def test_streams_end_with_their_client() -> None:
    """With flush_interval -1, Caddy lets a request go on for a client that has gone."""
    directives = [line.strip() for line in caddyfile(BOXES, Peer("127.0.0.1", 8000), OWNER).splitlines()]
    assert not [line for line in directives if line.startswith("flush_interval")]


def test_routes_that_change_one_node_are_not_passed_on() -> None:
    (line,) = [one for one in caddyfile(BOXES, Peer("127.0.0.1", 8000), OWNER).splitlines() if "@managing path" in one]
    patterns = line.split()[2:]
    assert {"/admin/load", "/admin/load/", "/memory/evict/*", "/api/delete", "/models"} <= set(patterns)
    assert not [one for one in patterns if one.startswith(("/v1", "/api/chat", "/api/ps"))]


@pytest.mark.parametrize(
    ("nodes", "listen", "words"),
    [
        ([], "127.0.0.1:8000", "at least one node"),
        (["http://a", "https://b:443"], "127.0.0.1:8000", "http and with https cannot share"),
        (["box1:8080"], "box1:8080", "is the address of a node"),
    ],
)
def test_nodes_that_cannot_be_served_together(nodes: list[str], listen: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        caddyfile(read_peers(nodes), read_peers([listen])[0], OWNER)


class TestCaddy:
    pytestmark = with_caddy

    def test_caddy_takes_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "Caddyfile"
        file.write_text(caddyfile(read_peers(["https://box1:443", "https://[fd00::2]:443"]), Peer("[::1]", 1), OWNER))
        assert CADDY
        command = [CADDY, "validate", "--config", str(file), "--adapter", "caddyfile"]
        shown = subprocess.run(command, capture_output=True, text=True, env={"HOME": str(tmp_path)}, check=False)
        assert shown.returncode == 0, shown.stderr
        assert "not formatted" not in shown.stderr

    def test_answers_streams_and_sockets_pass(self, tmp_path: Path) -> None:
        with serving(fake_pool(["llm", "asr"])) as one, caddy(tmp_path, one.url) as url, httpx.Client() as client:
            answer = client.post(f"{url}/v1/chat/completions", json=says("good morning"))
            assert answer.json()["choices"][0]["message"]["content"] == "good morning"
            body = says("one two three", stream=True)
            with client.stream("POST", f"{url}/v1/chat/completions", json=body) as stream:
                events = [line.removeprefix("data: ") for line in stream.iter_lines() if line]
            assert events[-1] == "[DONE]"
            told = "".join(json.loads(one)["choices"][0]["delta"].get("content") or "" for one in events[:-1])
            assert told == "one two three"
            lines = client.post(f"{url}/api/chat", json={"model": "fake-llm", **says("a b")}).text.splitlines()
            assert json.loads(lines[-1])["done"] is True
            with connect(f"{url.replace('http', 'ws', 1)}/v1/transcribe/live") as live:
                assert hears(live) == "1 2"

    def test_a_long_upload_passes(self, tmp_path: Path) -> None:
        form = {"data": {"model": "fake-asr"}, "files": {"file": ("a.wav", encoded(melody(30, 44_100), FORMS["wav"]))}}
        with serving(fake_pool(["asr"])) as one, caddy(tmp_path, one.url) as url, httpx.Client(timeout=30) as client:
            there = client.post(f"{one.url.rstrip('/')}/v1/audio/transcriptions", **form)
            here = client.post(f"{url}/v1/audio/transcriptions", **form)
        assert there.json()["text"]
        assert (here.status_code, here.json()) == (200, there.json())

    def test_a_stream_comes_as_it_is_made_and_ends_with_its_client(self, tmp_path: Path) -> None:
        pool = fake_pool(["llm"], delay=0.02, context=10**6)
        with serving(pool) as one, caddy(tmp_path, one.url) as url, httpx.Client(timeout=30) as client:
            body = says("word " * 5000, stream=True)  # more than a minute and a half
            with client.stream("POST", f"{url}/v1/chat/completions", json=body) as stream:
                lines = stream.iter_lines()
                next(lines)
                assert pool.gates["llm"].leases == 1
            until(lambda: pool.gates["llm"].leases == 0, 30)

    def test_managing_routes_are_refused_and_no_node_is_said(self, tmp_path: Path) -> None:
        gone = f"127.0.0.1:{free_port()}"
        with caddy(tmp_path, gone) as url, httpx.Client(timeout=60) as client:
            refused = client.post(f"{url}/admin/load", json={"model": "llm"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ask_the_node")
            nobody = client.get(f"{url}/v1/models")
            assert (nobody.status_code, nobody.json()["error"]["code"]) == (503, "no_node")
            assert nobody.headers["Retry-After"] == "5"

    def test_a_killed_node_fails_its_answers_alone(self, tmp_path: Path) -> None:
        """Each client may lose the answer that is under way there; the other node answers all that follow."""
        with nodes(2) as there, caddy(tmp_path, *(one.url for one in there)) as url:
            asked = Asked(url)
            with asked.load(CLIENTS):
                until(lambda: len(asked.results) > 20, 30)
                os.kill(there[0].pid, signal.SIGKILL)
                before = len(asked.results)
                until(lambda: len(asked.results) > before + 60, 60)
        wrong = [result for _, result in asked.results if result != "ok"]
        assert len(wrong) <= CLIENTS, wrong
        assert all(result in ("502", "503", "broken") for result in wrong), wrong
