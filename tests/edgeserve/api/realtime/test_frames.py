"""The frames of clients: large ones of many values are read where clients take turns."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from edgeserve.api.fields import Fields
from edgeserve.api.realtime import frames
from edgeserve.api.realtime.refusal import Refused

SOUND = json.dumps({"type": "input_audio_buffer.append", "audio": "A" * frames.LARGE})
MANY = json.dumps({"type": "conversation.item.create", "item": {"none": [10**8] * (frames.LARGE // 10 + 1)}})


@pytest.mark.parametrize(("text", "apart"), [(SOUND, False), (MANY, True)])
def test_clients_take_turns_with_large_frames_of_many_values(
    text: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    read = frames.read_object

    def noted(data: bytes, name: str, most: int) -> Fields:
        threads.append(threading.current_thread().name)
        return read(data, name, most)

    monkeypatch.setattr(frames, "read_object", noted)
    message: Any = {"text": text}
    assert asyncio.run(frames.read_frame(message)).raw("type") == json.loads(text)["type"]
    assert threads[0].startswith("edgeserve the reading of bodies") is apart


def test_a_frame_holds_no_more_values_than_settings_need() -> None:
    whole = {"type": "session.update", "session": {"tools": [1] * (frames.MOST_VALUES - 10)}}
    message: Any = {"text": json.dumps(whole)}
    assert asyncio.run(frames.read_frame(message)).raw("type") == "session.update"
    whole["session"] = {"tools": [1] * (frames.MOST_VALUES + 10)}
    message = {"text": json.dumps(whole)}
    with pytest.raises(Refused, match="more than 16,384 values"):
        asyncio.run(frames.read_frame(message))
