"""The door of a cluster: an ASGI application that passes each request on to the node that a lease names.

It knows nothing of Ray. A lease is an asynchronous context manager over the address of a node. The node counts the
request for as long as the context is open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping

from edgeserve.api.limits import Limits
from edgeserve.cluster.asgi import STATUS, Receive, Scope, Send, answer, error, fail, is_proper, knows, target
from edgeserve.cluster.passing import LIMITS, Lease, Passing
from edgeserve.cluster.passing_socket import pass_socket, refuse
from edgeserve.cluster.question import read_question

Status = Callable[[], Awaitable[Mapping[str, object]]]

SLASHES = re.compile("/{2,}")
IMPROPER = "invalid_path", "the path has to begin with a slash, and to have no #, and no parts . and .."


class Door:
    """One application for all clients of a cluster.

    ``status``: the snapshot as JSON. ``key``: the key of all nodes. Each node checks it; the door checks it for its own
    route, and before it reads long JSON. ``owner``: beginnings of the paths that change one node.
    """

    def __init__(
        self, lease: Lease, status: Status, key: str = "", owner: tuple[str, ...] = (), limits: Limits = LIMITS
    ) -> None:
        self._lease = lease
        self._status = status
        self._key = key
        self._owner = owner
        self._passing = Passing(lease, key, limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif not is_proper(scope["path"]) or b"#" in target(scope):  # no address of a node could have it
            await self._refuse(scope, receive, send)
        elif scope["type"] == "websocket":
            question = read_question(scope["path"], scope["query_string"])
            await pass_socket(self._lease, question, scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = SLASHES.sub("/", scope["path"])
        if path == STATUS and not knows(self._key, scope):
            await fail(send, 401, "unauthorized", "no key or a wrong one; send Authorization: Bearer <key>")
        elif path == STATUS:
            await answer(send, 200, await self._status())
        elif path.startswith(self._owner):
            await fail(send, 403, "ask_the_node", f"{path} changes one node: ask the node itself, not the cluster")
        else:
            await self._passing.pass_on(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()  # its connect
            await refuse(scope, send, 400, json.dumps(error(*IMPROPER)).encode())
        else:
            await fail(send, 400, *IMPROPER)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._passing.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})
