"""The number of nodes on Ray Serve, between its bounds: three boxes in Ray's test cluster, on fake engines.

They run where Ray is installed (``make test-cluster``) and can start. Ray averages the figures of a node over half a
minute, so each of these tests takes about one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from benchmarks.cluster_boxes import NotHere, RayBoxes, ray_boxes
from support.asked import says
from support.ray import ON_RAY
from support.server import until

from edgeserve.cluster.snapshot import Snapshot, from_json
from edgeserve.memory.pressure import Level

pytestmark = ON_RAY
CHAT = "/v1/chat/completions"


@contextlib.contextmanager
def one_to_three(*memory: int, **given: Any) -> Iterator[RayBoxes]:
    """Boxes of which one serves at first."""
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(ray_boxes(memory, least=1, most=3, join_after=1.0, leave_after=2.0, **given))
        except NotHere as reason:
            pytest.skip(str(reason)[:300])
        yield made


def snapshot(boxes: RayBoxes) -> Snapshot:
    return from_json(httpx.get(f"{boxes.url}/cluster/status", timeout=30, trust_env=False).raise_for_status().json())


def serving(boxes: RayBoxes) -> int:
    """Nodes that serve, as the cluster reports them."""
    return len(snapshot(boxes).nodes)


class Clients:
    """Clients that ask one long question after another. ``failed`` holds every answer that was not right."""

    def __init__(self, url: str, count: int) -> None:
        self.failed: list[str] = []
        self._url = url
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]
        for one in self._threads:
            one.start()

    def _ask(self) -> None:
        with httpx.Client(timeout=120, trust_env=False) as client:
            while not self._enough.is_set():
                answer = client.post(self._url + CHAT, json=says("word " * 20))
                text = answer.json()["choices"][0]["message"]["content"] if answer.status_code == 200 else answer.text
                if text != ("word " * 20).strip():
                    self.failed.append(text)

    def end(self) -> None:
        self._enough.set()
        for one in self._threads:
            one.join(120)


def test_queues_bring_all_boxes_in_and_let_them_go_and_no_answer_is_lost() -> None:
    """Ten clients at four places a node, which lets eight more wait."""
    with one_to_three(3000, 3000, 3000, delay=0.05) as boxes:
        assert serving(boxes) == 1
        clients = Clients(boxes.url, 10)
        try:
            until(lambda: serving(boxes) >= 2, 180)
            few = Clients(boxes.url, 1)  # somebody asks on while nodes leave
        finally:
            clients.end()
        until(lambda: serving(boxes) == 1, 180)
        few.end()
        assert clients.failed + few.failed == []


def test_memory_brings_a_box_in_without_a_queue() -> None:
    """The first answer of a node leaks 600 MB of its budget of 750 MB, so that the pressure there is high."""
    with one_to_three(1000, 1000, 1000, leak_mb=600) as boxes:
        assert serving(boxes) == 1
        httpx.post(boxes.url + CHAT, json=says("word"), timeout=60, trust_env=False).raise_for_status()
        until(lambda: snapshot(boxes).nodes[0].pressure >= Level.HIGH)  # a report may be a second old
        assert max(one.pressure for one in snapshot(boxes).nodes) < Level.CRITICAL
        until(lambda: serving(boxes) == 2, 180)
        assert sorted(one.pressure for one in snapshot(boxes).nodes)[0] < Level.HIGH
