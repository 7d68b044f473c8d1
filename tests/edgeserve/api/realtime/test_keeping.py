"""The bytes that a session keeps: settings, events that wait, and what an answer was asked with."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from typing import Any, cast

import pytest
from support.cases import each

from edgeserve.api.limits import Limits
from edgeserve.api.places import Places
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.keeping import FEW_BYTES, Keeping
from edgeserve.api.realtime.outbox import Outbox
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.socket import Talk
from edgeserve.clients import Client
from edgeserve.errors import Busy
from edgeserve.live.pace import LoopTime, Pace
from edgeserve.memory.traffic import Traffic
from edgeserve.units import MB

WIDE = "\U0001f600" + "a" * 200_000
"""One character has all of them take four bytes each."""
MANY = [{"a": 1}] * 5000


@each("change", [{"instructions": WIDE}, {"tracing": {"a": MANY}}])
def test_settings_count_with_their_values(change: dict[str, Any]) -> None:
    traffic, outbox = Traffic(), Outbox()
    session = Session(Config.new(Limits()), Limits())
    with Places(4, most_kept=4 * MB, traffic=traffic).one(Client()) as place:
        keeping = Keeping(session, place, outbox)
        keeping.count()
        assert traffic.held == 0  # those that all begin with are shared
        session._config = session.config.changed(change, Limits())
        keeping.count()
        assert 800_000 < traffic.held < 3 * MB
    assert traffic.held == 0


def test_a_client_that_keeps_much_gets_no_settings_and_still_the_results_of_tools() -> None:
    session = Session(Config.new(Limits()), Limits())
    with Places(4, most_kept=2 * MB).one(Client()) as place:
        keeping = Keeping(session, place, Outbox())
        place.count(MB)
        keeping.work["sound"] = MB
        keeping.take("{}", freely=True)
        with pytest.raises(Busy, match="your conversations keep"):
            keeping.take("{}", freely=False)
        with pytest.raises(Busy):
            keeping.take("x" * FEW_BYTES, freely=True)
        with pytest.raises(Busy):
            keeping.take(json.dumps(MANY), freely=True)


def test_events_that_wait_for_the_client_count_until_it_has_them() -> None:
    async def unread() -> None:
        traffic, outbox, read = Traffic(), Outbox(), asyncio.Event()
        session = Session(Config.new(Limits()), Limits())
        with Places(4, traffic=traffic).one(Client()) as place:
            keeping = Keeping(session, place, outbox)

            async def send(text: str) -> None:
                await read.wait()

            sender = asyncio.create_task(outbox.run(send, keeping.count))
            outbox.put({"text": WIDE})
            keeping.count()
            assert traffic.held > 800_000
            read.set()
            await asyncio.wait_for(outbox.room(), 5)
            assert traffic.held == 0
            sender.cancel()

    asyncio.run(unread())


class Frame(dict[str, Any]):
    """A message that can be watched."""


class Silent:
    """A socket whose client sends one frame and no more."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.frame = [Frame(type="websocket.receive", text='{"type":"nothing known"}')]
        self.waits = asyncio.Event()

    async def receive(self) -> Frame:
        if self.frame:
            return self.frame.pop()
        self.waits.set()
        return await asyncio.Future()


def test_a_silent_session_does_not_keep_its_last_frame() -> None:
    async def silent() -> None:
        socket = Silent()
        frame = weakref.ref(socket.frame[0])
        session, unused = Session(Config.new(Limits()), Limits()), cast(Any, None)
        with Places(4).one(Client()) as place:
            talk = Talk(cast(Any, socket), session, unused, place, Pace(LoopTime()))
            reading = asyncio.create_task(talk._read())
            await asyncio.wait_for(socket.waits.wait(), 5)
            gc.collect()
            assert frame() is None
            reading.cancel()

    asyncio.run(silent())
