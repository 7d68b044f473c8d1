"""The steps of a renderer: their thread, their parts, and the last one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from edgeserve.api.rendering import Steps


@pytest.mark.parametrize("threaded", [False, True])
def test_parts_are_made_as_they_are_asked_for_on_the_right_thread(threaded: bool) -> None:
    made: list[tuple[bytes, bool]] = []

    def feed(*words: bytes) -> Iterator[bytes]:
        for word in words:
            made.append((word, threading.current_thread() is threading.main_thread()))
            yield word

    async def run() -> None:
        steps = Steps(threaded=threaded)
        first, more = await steps.begin(feed, b"one", b"two")
        assert first == b"one"
        assert made == [(b"one", not threaded)]
        assert more is not None
        assert [await steps.next(more) for _ in range(2)] == [b"two", None]
        assert await steps.begin(lambda: b"whole") == (b"whole", None)
        assert (await steps.begin(feed))[0] is None
        await steps.close(lambda: made.append((b"last", threading.current_thread() is threading.main_thread())))

    asyncio.run(run())
    assert made == [(b"one", not threaded), (b"two", not threaded), (b"last", not threaded)]
