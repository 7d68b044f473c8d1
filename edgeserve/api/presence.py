"""Whether the client of a request is still there, work that ends when it has gone, and the end of its connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope

from edgeserve.errors import Cancelled
from edgeserve.media.leash import Leash
from edgeserve.residency.aside import Aside

T = TypeVar("T")
HANG_UP = "edgeserve.hang_up"
"""Key in a request's scope: a function that closes the connection within the answer."""


def hang_up(scope: Scope) -> None:
    """End an answer that has begun without its last part, so that what came is not taken for the whole."""
    scope.get(HANG_UP, lambda: None)()


@contextlib.asynccontextmanager
async def watching(receive: Receive, gone: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Await ``gone`` as soon as the client has gone. The body must have been read."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await gone()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.wait([watcher])  # a cancellation of this task meanwhile must not be taken for that of the watcher
        if not watcher.cancelled():
            watcher.result()


async def leashed(receive: Receive, aside: Aside, work: Callable[[Leash], T]) -> T:
    """The result of ``work`` on a thread of ``aside``. Its leash is cut as soon as the client has gone.

    The body must have been read. Raises the errors of ``work``, and Busy.
    """
    leash = Leash()

    async def gone() -> None:
        leash.cut()

    try:
        async with watching(receive, gone):
            return await aside.run(work, leash)
    finally:
        leash.cut()  # the request may be cancelled for another reason, too


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client leaves. The body must have been read.

    Raises what ``work`` raises, and Cancelled.
    """
    working = asyncio.create_task(work)
    left = False

    async def gone() -> None:
        nonlocal left
        left = working.cancel()

    try:
        async with watching(request.receive, gone):
            return await working
    except asyncio.CancelledError:
        if left:
            raise Cancelled("the client went away") from None
        raise
    finally:
        working.cancel()
        await asyncio.wait([working])
