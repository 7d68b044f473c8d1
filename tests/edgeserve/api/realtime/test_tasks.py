"""The work of a session as tasks: the sound that they keep."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.places import Places
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.items import Item
from edgeserve.api.realtime.keeping import Keeping
from edgeserve.api.realtime.outbox import Outbox
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.tasks import Tasks
from edgeserve.api.realtime.work import Draft, Settle
from edgeserve.clients import Client
from edgeserve.live.pace import LoopTime, Pace
from edgeserve.memory.traffic import Traffic
from edgeserve.units import KB, MB

TELEPHONE = {"audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}}}


class Deaf:
    """Engines whose words never come."""

    async def words(self, config: Config, sound: bytes) -> str:
        return await asyncio.Future()


def test_the_sound_of_an_item_counts_as_engines_hear_it() -> None:
    async def with_items() -> None:
        traffic = Traffic()
        places = Places(4, most_kept=8 * MB, traffic=traffic)
        session = Session(Config.new(Limits()).changed(TELEPHONE, Limits()), Limits())
        engines: Any = Deaf()
        with places.one(Client()) as place:
            keeping = Keeping(session, place, Outbox())
            tasks = Tasks(session, engines, keeping, Pace(LoopTime()), lambda: None, Outbox())
            part = {"type": "input_audio", "audio": base64.b64encode(bytes(400 * KB)).decode()}
            item = {"type": "message", "role": "user", "content": [part]}
            for _ in range(2):
                session.take(session.read(Fields({"type": "conversation.item.create", "item": item})))
                tasks.begin(session.work.pop())
            keeping.count()
            items = session.conversation.held + session.config.held
            kept = 8 * 400 * KB + items  # the second would be more than half of all
            assert traffic.held == kept == place.held
            failed = session.out[-1]["error"]["message"]
            assert "MB of sound and items" in failed
            assert "the limit is 4 MB" in failed
            await tasks.end()
        assert traffic.held == 0

    asyncio.run(with_items())


def test_the_copy_of_a_draft_counts_while_it_is_heard() -> None:
    async def with_draft() -> None:
        traffic = Traffic()
        session, engines = Session(Config.new(Limits()), Limits()), cast(Any, Deaf())
        with Places(4, traffic=traffic).one(Client()) as place:
            keeping = Keeping(session, place, Outbox())
            tasks = Tasks(session, engines, keeping, Pace(LoopTime()), lambda: None, Outbox())
            for size in (3000, 2000):
                tasks.begin(Draft(bytes(size)))
                await asyncio.gather(*list(keeping.work)[:-1], return_exceptions=True)  # the one before lets go
                keeping.count()
                assert traffic.held == size
            tasks.begin(Settle(Item("a"), bytes(100), drafted=True))
            keeping.count()
            assert traffic.held == 2000 + 100
            await tasks.end()
        assert traffic.held == 0

    asyncio.run(with_draft())
