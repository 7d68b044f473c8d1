"""Models whose engine is being replaced, and the requests that wait for the new one. The event loop's thread only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import field

from edgeserve import clients
from edgeserve.clients import Groups
from edgeserve.dataclass import dataclass
from edgeserve.errors import Busy, ShuttingDown
from edgeserve.shares import Shares

MOST_WAIT = 32
"""Requests that wait for one model. Clients share these places."""


@dataclass(slots=True, eq=False)
class Waiting:
    """One request of a client. ``over`` is done when the wait ends; its error is the request's."""

    groups: Groups
    over: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def end(self, error: Busy | None = None) -> None:
        if self.over.done():  # its client has left
            return
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)


class Successions:
    """While ``most`` requests wait for a model, the client with the most gives its last place to one with fewer."""

    def __init__(self, most: int = MOST_WAIT) -> None:
        self._most = most
        self._under_way: dict[str, list[Waiting]] = {}
        self._closed = False

    def __contains__(self, model: object) -> bool:
        return model in self._under_way

    @contextlib.contextmanager
    def under_way(self, model: str) -> Iterator[None]:
        """Brackets one replacement. There is one a model at a time."""
        line: list[Waiting] = []
        self._under_way[model] = line
        try:
            yield
        finally:
            del self._under_way[model]
            for one in line:
                one.end()

    async def over(self, model: str) -> None:
        """Wait until no replacement of the model is under way. Raises Busy, and ShuttingDown when the server ends."""
        while (line := self._under_way.get(model)) is not None:
            self._check_open()
            one = Waiting(clients.current.get().groups)
            if len(line) >= self._most:
                self._make_room(model, line, one.groups)
            line.append(one)
            try:
                await one.over
            finally:
                if one in line:
                    line.remove(one)
            self._check_open()

    def _make_room(self, model: str, line: list[Waiting], groups: Groups) -> None:
        """End the last wait of the client with the most. Raises Busy if nobody has more than ``groups``."""
        text = f"{model} is being replaced, and {self._most} requests wait for it already; try again later"
        greedier = Shares(one.groups for one in line).greedier(groups)
        if not greedier:
            raise Busy(text, retry_after=5)
        last = next(one for one in reversed(line) if one.groups == greedier[0])
        line.remove(last)
        last.end(Busy(text, retry_after=5))

    def close(self) -> None:
        """End all waits: the server takes no new requests."""
        self._closed = True
        for line in self._under_way.values():
            for one in line:
                one.end()

    @property
    def closed(self) -> bool:
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise ShuttingDown("the server is shutting down and takes no new requests", retry_after=5)
