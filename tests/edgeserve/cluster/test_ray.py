"""Replicas on Ray Serve: three nodes with memory of their own in Ray's test cluster, on fake engines.

They run where Ray is installed (``make test-cluster``) and can start. One cluster serves all tests; the last of them
kills a node.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from benchmarks.cluster_boxes import NotHere, RayBoxes, ray_boxes
from support.asked import Asked, hears, says
from support.ray import ON_RAY
from support.server import until
from support.sounds import FORMS, encoded, melody
from websockets.sync.client import connect

from edgeserve.cluster.snapshot import Snapshot, from_json
from edgeserve.engine import Rung

pytestmark = ON_RAY
CHAT = "/v1/chat/completions"
SPARE = "127.0.0.9"
"""Address of a box that joins."""
SOUND = encoded(melody(0.2, 16_000), FORMS["wav"])


@pytest.fixture(scope="module")
def boxes() -> Iterator[RayBoxes]:
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(ray_boxes([2000, 3000, 4000], delay=0.01))
        except NotHere as reason:
            pytest.skip(str(reason)[:300])
        yield made


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=120, trust_env=False) as made:
        yield made


def status(boxes: RayBoxes, client: httpx.Client) -> Snapshot:
    return from_json(client.get(f"{boxes.url}/cluster/status").raise_for_status().json())


def hot(snapshot: Snapshot, name: str) -> int:
    """Nodes on which the model is hot."""
    return sum(one.name == name and one.rung is Rung.HOT for node in snapshot.nodes for one in node.models)


def test_each_node_is_a_whole_server_with_its_own_memory(boxes: RayBoxes, client: httpx.Client) -> None:
    snapshot = status(boxes, client)
    assert len(snapshot.nodes) == 3
    assert len({one.budget for one in snapshot.nodes}) == 3
    assert {model.name for one in snapshot.nodes for model in one.models} == {"fake-llm", "fake-asr"}


def test_requests_one_after_another_stay_where_the_model_is_hot(boxes: RayBoxes, client: httpx.Client) -> None:
    """By chance, eight requests find the same of three nodes once in 2,000 times."""

    def stay() -> bool:
        for one in status(boxes, client).nodes:
            client.post(f"{one.name}/memory/evict/asr").raise_for_status()
        for _ in range(8):
            form: dict[str, Any] = {"data": {"model": "fake-asr"}, "files": {"file": ("a.wav", SOUND)}}
            client.post(f"{boxes.url}/v1/audio/transcriptions", **form).raise_for_status()
        return hot(status(boxes, client), "fake-asr") == 1

    until(stay, 60)  # the first reports of the nodes come a second after their start
    assert [stay(), stay()] == [True, True]


def test_a_stream_comes_in_pieces(boxes: RayBoxes, client: httpx.Client) -> None:
    with client.stream("POST", boxes.url + CHAT, json=says("one two three", stream=True)) as stream:
        events = [line.removeprefix("data: ") for line in stream.iter_lines() if line]
    assert events[-1] == "[DONE]"
    told = [json.loads(one)["choices"][0]["delta"].get("content") or "" for one in events[:-1]]
    assert "".join(told) == "one two three"


def test_uploads_and_websockets_pass(boxes: RayBoxes, client: httpx.Client) -> None:
    sound = encoded(melody(4, 44_100), FORMS["wav"])  # longer than the beginning that the door reads
    form: dict[str, Any] = {"data": {"model": "fake-asr"}, "files": {"file": ("a.wav", sound)}}
    assert client.post(f"{boxes.url}/v1/audio/transcriptions", **form).status_code == 200
    with connect(f"{boxes.url.replace('http', 'ws', 1)}/v1/transcribe/live") as live:
        assert hears(live) == "1 2"


def test_a_client_that_goes_ends_its_answer(boxes: RayBoxes, client: httpx.Client) -> None:
    with client.stream("POST", boxes.url + CHAT, json=says("word " * 20_000, stream=True)) as stream:
        lines = stream.iter_lines()  # kept: closing it would close the connection
        next(lines)
        until(lambda: sum(one.requests for one in status(boxes, client).nodes) == 1, 30)
    until(lambda: sum(one.requests for one in status(boxes, client).nodes) == 0, 30)


def test_an_answer_that_nobody_reads_waits_at_its_node(boxes: RayBoxes, client: httpx.Client) -> None:
    """Ray's proxy took it as fast as the node made it, and kept it in memory."""
    long = says(f"{'w' * 16_000} " * 600, stream=True)
    with client.stream("POST", boxes.url + CHAT, json=long) as unread:
        lines = unread.iter_lines()  # kept: closing it would close the connection
        next(lines)
        with httpx.Client(timeout=120, trust_env=False) as other:  # its answer takes as long, and begins later
            assert other.post(boxes.url + CHAT, json=long).status_code == 200
        assert sum(one.requests for one in status(boxes, client).nodes) == 1
    until(lambda: sum(one.requests for one in status(boxes, client).nodes) == 0, 30)


def test_a_queue_brings_further_nodes_in(boxes: RayBoxes, client: httpx.Client) -> None:
    def ask() -> None:
        assert httpx.post(boxes.url + CHAT, json=says("word " * 300), timeout=120).status_code == 200

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    until(lambda: hot(status(boxes, client), "fake-llm") >= 2, 30)


def test_a_box_joins_by_the_command(boxes: RayBoxes, tmp_path: Path) -> None:
    """By Ray's own command, which refuses what only a head may say. The box stays a spare one."""
    import ray

    def joined() -> bool:
        return any(one["Alive"] and one["NodeManagerAddress"] == SPARE for one in ray.nodes())

    (tmp_path / "box.toml").write_text("")
    token = tmp_path / "token"
    token.write_text("0" * 64)
    token.chmod(0o600)
    command = [sys.executable, "-m", "edgeserve", "cluster", "join", boxes.cluster.address, "--host", SPARE]
    command += ["--token-file", str(token), "--config", str(tmp_path / "box.toml")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        until(joined, 60)
    finally:
        for one in psutil.process_iter(["cmdline"]):
            if any(word.endswith(f"={SPARE}") for word in one.info["cmdline"] or ()):
                one.kill()
    until(lambda: not joined(), 60)


def test_a_killed_node_fails_its_answers_alone(boxes: RayBoxes, client: httpx.Client) -> None:
    """Answers fail until its end is known, and none after that: behind thirty right ones in a row."""
    asked = Asked(boxes.url)
    with asked.load(4):
        until(lambda: len(asked.results) > 20, 60)
        boxes.kill(1)
        killed = len(asked.results)
        until(lambda: [one for _, one in asked.results[killed:]][-30:] == ["ok"] * 30, 120)
        known = len(asked.results)
        until(lambda: len(asked.results) > known + 30, 120)
    after = [result for _, result in asked.results[known:]]
    assert all(result == "ok" for result in after), after
    wrong = [result for _, result in asked.results if result != "ok"]
    assert all(result in ("502", "503", "broken") for result in wrong), wrong
    until(lambda: len(status(boxes, client).nodes) == 2, 60)
