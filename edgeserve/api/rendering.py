"""The steps of a renderer, one after the other, on a thread where they compute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, TypeVar

from edgeserve.residency.aside import Aside

RENDERS = Aside("the writing of answers", threads=4, most=1 << 16, rest=0.5)
"""Clients take turns, so that one with many long answers holds up nobody else. No answer under way is refused."""
T = TypeVar("T")


class Steps:
    """Runs the steps of one renderer. ``threaded``: on the threads of ``RENDERS``."""

    def __init__(self, *, threaded: bool) -> None:
        self._threaded = threaded

    async def parts(self, step: Callable[..., bytes | Iterator[bytes]], *values: Any) -> AsyncGenerator[bytes, None]:
        """The bytes of a step, or its parts, each made as it is asked for."""
        made = await self._run(step, *values)
        if isinstance(made, bytes):
            yield made
        else:
            while (part := await self._run(next, made, None)) is not None:
                yield part

    async def close(self, last: Callable[[], None]) -> None:
        """The last step. It waits for no turn, so that nothing refuses it."""
        if self._threaded:
            await asyncio.to_thread(last)
        else:
            last()

    async def _run(self, step: Callable[..., T], *values: Any) -> T:
        return await RENDERS.run(step, *values) if self._threaded else step(*values)
