"""The steps of a renderer, one after the other, on a thread where they compute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from edgeserve.residency.aside import Aside

RENDERS = Aside("the writing of answers", threads=4, most=1 << 16)
"""Clients take turns, so that one with many long answers holds up nobody else. No answer under way is refused."""
T = TypeVar("T")
Begun = tuple[bytes | None, Iterator[bytes] | None]


class Steps:
    """Runs the steps of one renderer. ``threaded``: on the threads of ``RENDERS``."""

    def __init__(self, *, threaded: bool) -> None:
        self._threaded = threaded

    async def begin(self, step: Callable[..., bytes | Iterator[bytes]], *values: Any) -> Begun:
        """The first bytes of a step, None where it makes none, and its further parts, where there may be some."""
        made = await self._run(step, *values)
        return (made, None) if isinstance(made, bytes) else (await self.next(made), made)

    async def next(self, parts: Iterator[bytes]) -> bytes | None:
        """The next part, made as it is asked for; None behind the last."""
        return await self._run(next, parts, None)

    async def close(self, last: Callable[[], None]) -> None:
        """The last step. It waits for no turn, so that nothing refuses it."""
        if self._threaded:
            await asyncio.to_thread(last)
        else:
            last()

    async def _run(self, step: Callable[..., T], *values: Any) -> T:
        return await RENDERS.run(step, *values) if self._threaded else step(*values)
