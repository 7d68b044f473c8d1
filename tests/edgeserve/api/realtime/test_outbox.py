from __future__ import annotations

import asyncio
import json
from typing import Any

from edgeserve.api.realtime.outbox import MAX_BYTES, Outbox


def test_events_are_sent_in_order_and_makers_wait_for_a_slow_client() -> None:
    async def work() -> tuple[list[Any], bool]:
        outbox, sent, slow, over = Outbox(), list[Any](), asyncio.Event(), asyncio.Event()

        async def send(text: str) -> None:
            await slow.wait()
            sent.append(json.loads(text)["number"])
            if sent[-1] == 2:
                over.set()

        sender = asyncio.create_task(outbox.run(send))
        outbox.put({"number": 0})
        await asyncio.wait_for(outbox.room(), 5)  # there is room for more
        outbox.put({"number": 1, "sound": "x" * MAX_BYTES})
        waiting = asyncio.create_task(outbox.room())
        for _ in range(5):
            await asyncio.sleep(0)
        waited = not waiting.done()
        slow.set()
        await asyncio.wait_for(waiting, 5)
        outbox.put({"number": 2})
        await asyncio.wait_for(over.wait(), 5)
        sender.cancel()
        return sent, waited

    assert asyncio.run(work()) == ([0, 1, 2], True)
