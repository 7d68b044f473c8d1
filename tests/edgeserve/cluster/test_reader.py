"""The reader of snapshots: nodes that answer, nodes that fall silent, and nodes that are something else."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.cases import each
from support.nodes import reports
from support.server import fake_pool, serving

from edgeserve.cluster.peers import read_peer, read_peers
from edgeserve.cluster.reader import LONGEST, MISSES, Watch, make_client, read
from edgeserve.cluster.snapshot import Snapshot
from edgeserve.engine import Rung
from edgeserve.errors import EdgeserveError

PACKED = gzip.compress(b"{}")
Answers = Callable[[httpx.Request], httpx.Response]


def client(answers: Answers) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(answers))


class Boxes:
    """Nodes that answer as long as ``down`` does not hold their host."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.body: Any = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.host in self.down:
            raise httpx.ConnectTimeout("timed out", request=request)
        return httpx.Response(200, json=self.body or reports()[request.url.path])


def looks(boxes: Boxes, steps: list[set[str]]) -> list[tuple[list[str], list[str]]]:
    """Names of the nodes and of the problems after each look; each step names the nodes that are down."""

    async def run() -> list[tuple[list[str], list[str]]]:
        found = []
        async with client(boxes) as there:
            watch = Watch(read_peers(["a", "b"]), there)
            for boxes.down in steps:
                snapshot: Snapshot = await watch.look()
                found.append(([one.name for one in snapshot.nodes], sorted(watch.problems)))
        return found

    return asyncio.run(run())


def test_a_node_is_gone_after_three_misses_and_comes_back_with_its_first_answer() -> None:
    both, other, silent = ["a:8080", "b:8080"], ["b:8080"], ["a:8080"]
    found = looks(Boxes(), [set(), *[{"a"}] * MISSES, set()])
    assert found == [(both, []), (both, silent), (both, silent), (other, silent), (both, [])]


def test_misses_that_are_not_in_a_row_do_not_count() -> None:
    found = looks(Boxes(), [set(), {"a"}, {"a"}, set(), {"a"}, {"a"}])
    assert [len(nodes) for nodes, _ in found] == [2] * 6


def test_a_node_that_never_answered_is_not_there() -> None:
    assert looks(Boxes(), [{"b"}]) == [(["a:8080"], ["b:8080"])]


@each(
    ("answers", "words"),
    [
        (lambda _: httpx.Response(401, text="no key"), "answered 401: no key"),
        (lambda _: httpx.Response(200, text="<html>"), "answered with no JSON"),
        (lambda _: httpx.Response(200, json={}), "does not answer as an edgeserve"),
        (lambda _: httpx.Response(200, text="[" * 100_000), "answered with no JSON"),
        (lambda _: httpx.Response(200, text=" " * (LONGEST + 1)), "more than 4194304 bytes"),
        (lambda _: httpx.Response(200, content=PACKED, headers={"Content-Encoding": "gzip"}), "the encoding gzip"),
    ],
)
def test_another_answer_is_an_error_that_says_so(answers: Answers, words: str) -> None:
    async def run() -> None:
        async with client(answers) as there:
            await read(there, "http://box:8080")

    with pytest.raises(EdgeserveError, match=words):
        asyncio.run(run())


def test_a_name_that_cannot_be_is_a_node_that_does_not_answer() -> None:
    async def run() -> None:
        async with make_client() as there:
            await read(there, "http://xn--zz:8080")

    with pytest.raises(EdgeserveError, match="does not answer: "):
        asyncio.run(run())


@pytest.mark.usefixtures("patient")
def test_a_real_server_is_read() -> None:
    async def run(url: str) -> Snapshot:
        async with make_client("secret-key") as there:
            return await Watch([read_peer(url)], there).look()

    with serving(fake_pool(["llm", "asr"]), api_key="secret-key") as running:
        running.client.headers["Authorization"] = "Bearer secret-key"
        running.client.post("/memory/preload", json={"engines": ["llm"]}).raise_for_status()
        (node,) = asyncio.run(run(running.url)).nodes
    chat = node.find("", ("llm",))
    assert chat is not None
    assert (chat.rung, chat.requests, chat.slots) == (Rung.HOT, 0, 1)
    assert node.budget > 0
    assert {one.job for one in node.models} == {"llm", "asr"}
