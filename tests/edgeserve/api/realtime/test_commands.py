from __future__ import annotations

from typing import Any

import pytest
from support.cases import each

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.realtime import commands
from edgeserve.errors import InvalidRequest


@each("kind", ["", "session.updated", None, 7, [], {}, ["session.update"], True])
def test_an_event_of_no_known_type_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"is no event of clients; known: session\.update, "):
        commands.read(Fields({"type": kind}), Limits())


def test_an_event_becomes_the_record_of_its_type() -> None:
    given = {"type": "conversation.item.truncate", "item_id": "one", "audio_end_ms": 5, "event_id": "mine"}
    command = commands.read(Fields(given), Limits())
    assert isinstance(command, commands.Truncate)
    assert (command.item_id, command.audio_end_ms, command.event_id) == ("one", 5, "mine")
