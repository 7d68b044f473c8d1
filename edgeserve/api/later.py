"""Endpoints whose rooms are imported with their first request, so that a server at rest is light."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar

from edgeserve.named import find
from edgeserve.residency.aside import Aside

A = TypeVar("A")
T = TypeVar("T")

IMPORTS = Aside("imports", threads=1, most=1000)
"""Imports run on a thread, because they take up to 0.1 s, and the event loop serves others meanwhile.

More may wait than there are routes, and each route waits once at most: nobody is refused.
"""


def later(make: Callable[[], Callable[[A], Awaitable[T]]]) -> Callable[[A], Awaitable[T]]:
    """A function that ``make`` makes with the first call. A call raises the errors of making; the next one tries again.

    ``make`` runs on a thread.
    """
    made: Callable[[A], Awaitable[T]] | None = None
    making = asyncio.Lock()

    async def endpoint(asked: A) -> T:
        nonlocal made
        if made is None:
            async with making:
                if made is None:
                    made = await IMPORTS.run(make)
        return await made(asked)

    return endpoint


def at(import_string: str) -> Callable[[A], Awaitable[T]]:
    """The function that ``module:name`` names, imported with the first call."""
    return later(functools.partial(find, import_string))
