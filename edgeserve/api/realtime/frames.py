"""The frames of clients: one event each."""

from __future__ import annotations

import functools
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.json_body import READS, read_object
from edgeserve.api.realtime import beta
from edgeserve.api.realtime.refusal import Refused
from edgeserve.errors import InvalidRequest

LARGE, FEW_MARKS = 64 << 10, 64
"""Bytes of a frame that a thread reads, and commas and brackets of a frame that takes no time all the same: sound."""
MARKS = (b",", b"[", b"{")
MOST_VALUES = 1 << 14
"""Values of a frame: more than the settings of a session can hold, of which there are 256 KB. A value takes up to 230
bytes of memory, so that 131,072 of them would take 30 MB."""


async def read_frame(message: Any) -> Fields:
    """The event in a message of a WebSocket, with the beta's settings in today's shape. Raises InvalidRequest."""
    if (text := message.get("text")) is None:
        raise InvalidRequest("a binary frame: send events as text frames of JSON, and sound in them as base64")
    data = text.encode()
    slow = len(data) > LARGE and sum(map(data.count, MARKS)) > FEW_MARKS
    try:
        read = functools.partial(read_object, data, "the event", MOST_VALUES)
        fields = await READS.run(read) if slow else read()
    except InvalidRequest as error:
        raise Refused.by("invalid_json", error.message) from None
    values = dict(fields.items())
    for name in ("session", "response"):
        if isinstance(values.get(name), dict):
            values[name] = beta.whole(values[name])
    return Fields(values)
