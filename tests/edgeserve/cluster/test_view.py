"""The view of the peers: one look for all who ask, and nobody asked where there are none."""

from __future__ import annotations

import asyncio

import httpx
from support.nodes import reports

from edgeserve.cluster.fresh import FRESH
from edgeserve.cluster.peers import read_peers
from edgeserve.cluster.view import View


class Boxes:
    """Two nodes, of which "b" is silent. Counts the looks at "a"."""

    def __init__(self) -> None:
        self.looks = 0
        self.closed = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "b":
            raise httpx.ConnectError("nobody there", request=request)
        self.looks += request.url.path == "/memory/stats"
        return httpx.Response(200, json=reports()[request.url.path])

    def client(self, key: str) -> httpx.AsyncClient:
        assert key == "secret"
        return httpx.AsyncClient(transport=httpx.MockTransport(self))


def test_nodes_and_silent_ones_are_in_one_body() -> None:
    async def run() -> None:
        view = View(read_peers(["a", "b"]), "secret", Boxes().client)
        body = await view.look()
        await view.close()
        assert [one["name"] for one in body["nodes"]] == ["a:8080"]
        assert body["nodes"][0]["models"][0]["rung"] == "hot"
        assert list(body["silent"]) == ["b:8080"]
        assert "nobody there" in body["silent"]["b:8080"]
        assert body["pressure"] == "LOW"

    asyncio.run(run())


def test_one_look_serves_all_who_ask_within_a_second() -> None:
    now, boxes = [100.0], Boxes()

    async def run() -> None:
        view = View(read_peers(["a"]), "secret", boxes.client, lambda: now[0])
        await asyncio.gather(*(view.look() for _ in range(50)))
        assert boxes.looks == 1
        now[0] += FRESH
        await asyncio.gather(*(view.look() for _ in range(50)))
        assert boxes.looks == 2
        await view.close()

    asyncio.run(run())


def test_without_peers_there_is_no_cluster_and_nobody_is_asked() -> None:
    async def run() -> None:
        view = View((), "secret", lambda key: (_ for _ in ()).throw(AssertionError("a client was made")))
        assert await view.look() == {"pressure": "LOW", "nodes": [], "silent": {}}
        await view.close()

    asyncio.run(run())
