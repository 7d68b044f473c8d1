"""The reader of snapshots: asks all nodes for their memory, side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING

from edgeserve.cluster.peers import Peer
from edgeserve.cluster.snapshot import Node, Snapshot, read_node
from edgeserve.errors import EdgeserveError

if TYPE_CHECKING:
    import httpx

SECONDS = 1.0
"""Longest time that a node may take for one answer."""
LONGEST = 4 << 20
"""Bytes of one answer; a row of a model has some 500."""
MISSES = 3
"""Looks in a row without an answer after which a node is gone."""


def make_client(key: str = "") -> httpx.AsyncClient:
    """A client that talks to nodes directly, without a proxy. ``key``: the key of the nodes."""
    import httpx

    from edgeserve.cluster.nodes import Nodes

    headers = {b"Authorization": f"Bearer {key}".encode()} if key else {}
    transport = Nodes(httpx.Limits(max_connections=100, max_keepalive_connections=20))
    return without_cookies(httpx.AsyncClient(headers=headers, timeout=SECONDS, transport=transport, trust_env=False))


def without_cookies(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, which keeps no cookies: it would send those of one answer with all later requests."""
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return client


async def read(client: httpx.AsyncClient, url: str, name: str = "") -> Node:
    """The node at an address, called ``name`` or by its address. Raises EdgeserveError."""
    import httpx

    answers = []
    try:
        for path in ("/memory/stats", "/memory/models"):
            answers.append(await _body(client, url + path))
    except (httpx.HTTPError, UnicodeError) as error:  # UnicodeError: xn-- and what is no letter
        raise EdgeserveError(f"{url} does not answer: {str(error) or type(error).__name__}") from error
    try:
        stats, models = map(json.loads, answers)
    except (ValueError, RecursionError):
        raise EdgeserveError(f"{url} answered with no JSON; is it an edgeserve?") from None
    return read_node(name or url, stats, models)


async def _body(client: httpx.AsyncClient, address: str) -> bytes:
    """The answer of a node. One that is too long is not read to its end. Raises EdgeserveError and httpx.HTTPError."""
    async with client.stream("GET", address, headers={"Accept-Encoding": "identity"}) as answer:
        if packed := answer.headers.get("Content-Encoding"):
            raise EdgeserveError(f"{address} answered in the encoding {packed[:40]}, and it was asked for none")
        data = bytearray()
        async for piece in answer.aiter_bytes():
            data += piece
            if len(data) > LONGEST:
                raise EdgeserveError(f"{address} answered with more than {LONGEST} bytes; is it an edgeserve?")
        if answer.status_code != 200:
            words = data[:200].decode("utf-8", "replace")
            raise EdgeserveError(f"{address} answered {answer.status_code}: {words}")
        return bytes(data)


class Watch:
    """Looks at all nodes again and again, and forgets a node after ``MISSES`` looks without an answer.

    ``problems`` names, by node, the reason why the last look failed.
    """

    def __init__(self, peers: Iterable[Peer], client: httpx.AsyncClient) -> None:
        self._peers = tuple(peers)
        self._client = client
        self._nodes: dict[Peer, Node] = {}
        self._misses: dict[Peer, int] = {}
        self.problems: dict[str, str] = {}

    async def look(self) -> Snapshot:
        """The nodes that answer now, and those that answered within their last ``MISSES`` looks."""
        await asyncio.gather(*(self._look_at(one) for one in self._peers))
        return Snapshot(tuple(self._nodes[one] for one in self._peers if one in self._nodes))

    async def _look_at(self, peer: Peer) -> None:
        try:
            async with asyncio.timeout(2 * SECONDS):
                self._nodes[peer] = await read(self._client, peer.url, peer.address)
        except (EdgeserveError, TimeoutError) as error:
            self.problems[peer.address] = str(error) or f"silent for {2 * SECONDS:g} s"
            self._misses[peer] = self._misses.get(peer, 0) + 1
            if self._misses[peer] >= MISSES:
                self._nodes.pop(peer, None)
        else:
            self._misses.pop(peer, None)
            self.problems.pop(peer.address, None)
