from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.cases import each
from support.speech import spoken

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.messages import Pcm, SegmentEvent, TranscribeRequest
from edgeserve.talk.ending import is_over


@each("text", ["What time is it?", "Turn on the light.", "Stop!", 'He said "go."', "そうです。"])
def test_a_whole_sentence_is_over(text: str) -> None:
    assert is_over(text)


@each(
    "text",
    [
        "",
        "I would like",
        "I want to go to the.",
        "Well...",
        "Bread, milk and",
        "Because.",
        "um.",
        "It comes from.",
        "Ich komme und",
    ],
)
def test_a_sentence_that_goes_on_is_not(text: str) -> None:
    assert not is_over(text)


WHOLE = ("What time is it?", "Turn on the light in the kitchen.", "Thank you.", "How many days are in a week?")
CUT = ("I would like to", "Please bring me two cups of", "It depends on", "Tomorrow I will meet my")


@pytest.mark.models
def test_voices_that_stop_and_voices_that_pause(pulled: Callable[[str], Mapping[str, Path]]) -> None:
    """Whisper sets a full stop behind cut sentences, too."""
    engine = OnnxSpeechToText(ModelSpec("asr", "whisper", "", pulled("whisper-tiny.en"), threads=2))
    engine.heat()

    def heard(text: str) -> str:
        request = TranscribeRequest(Pcm(bytes(20_000) + spoken(text).tobytes() + bytes(12_800)))
        events = engine.transcribe(request, threading.Event())
        return "".join(one.text for one in events if isinstance(one, SegmentEvent)).strip()

    assert [is_over(heard(text)) for text in WHOLE] == [True] * len(WHOLE)
    assert [is_over(heard(text)) for text in CUT] == [False] * len(CUT)
    engine.close()
