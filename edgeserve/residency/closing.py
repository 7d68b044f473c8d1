"""The last steps of gates when the server ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from edgeserve.errors import ShuttingDown
from edgeserve.residency.gate import Gate

log = logging.getLogger("edgeserve.pool")


async def drain(gates: Iterable[Gate], seconds: float) -> None:
    """Take no new requests. Answers under way may end within ``seconds``; then they are cut with ShuttingDown."""
    until = time.monotonic() + seconds
    for gate in gates:
        if not await asyncio.to_thread(gate.drain, until):
            reason = f"the server is shutting down and the answer took longer than its drain time of {seconds:g} s"
            gate.abort(ShuttingDown(reason))


async def give_up(gates: Iterable[Gate]) -> None:
    """End the loads under way where that can be done."""
    for gate in gates:
        if gate.host.loading:
            log.warning("%s is on its way up; its load is given up, since the server ends", gate.id)
            await asyncio.to_thread(gate.host.give_up)
