"""The door of a cluster behind a real Uvicorn, with leases that a test gives."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

import uvicorn
from support.server import until

from edgeserve.api.limits import Limits
from edgeserve.cluster.door import Door
from edgeserve.cluster.passing import LIMITS
from edgeserve.cluster.question import Question
from edgeserve.errors import Busy
from edgeserve.listening import listen


@dataclass
class Leases:
    """Gives the addresses in turn, the last one again and again; ``open`` counts leases that run."""

    addresses: list[str]
    asked: list[Question] = field(default_factory=list)
    open: int = 0

    @contextlib.asynccontextmanager
    async def lease(self, question: Question) -> AsyncIterator[str]:
        self.asked.append(question)
        if not self.addresses:
            raise Busy("no node takes requests", retry_after=7.0)
        url = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        self.open += 1
        try:
            yield url.rstrip("/")
        finally:
            self.open -= 1

    async def status(self) -> Mapping[str, object]:
        return {"pressure": "LOW", "nodes": []}


@contextlib.contextmanager
def door(
    leases: Leases, key: str = "", owner: tuple[str, ...] = ("/admin/",), limits: Limits = LIMITS
) -> Iterator[str]:
    """The door's address."""
    listener = listen("127.0.0.1", 0)
    made = Door(leases.lease, leases.status, key, owner, limits)
    server = uvicorn.Server(
        uvicorn.Config(made, log_level="error", http="h11", ws="websockets-sansio", timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        until(lambda: server.started)
        yield "http://{}:{}".format(*listener.getsockname()[:2])
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
