"""The package ``wyoming`` of the protocol's makers, as Home Assistant uses it."""

from __future__ import annotations

import asyncio
import math
import struct
from typing import Any

import pytest

pytest.importorskip("wyoming", reason="make clients installs wyoming")

from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.handle import Handled, HandledChunk
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

SENTENCE = "The quick brown fox jumps over the lazy dog."


def shows(feature: str) -> Any:
    return pytest.mark.client("wyoming", feature)


@pytest.fixture
def ask(address: str, wyoming_port: int) -> Any:
    """Sends events and returns the answers up to the first of a kind."""

    async def asked(events: list[Any], last: Any) -> list[Event]:
        found: list[Event] = []
        async with AsyncTcpClient("127.0.0.1", wyoming_port) as client:
            for one in events:
                await client.write_event(one.event())
            while not found or not last.is_type(found[-1].type):
                event = await asyncio.wait_for(client.read_event(), 60)
                assert event is not None, found
                assert not Error.is_type(event.type), event.data
                found.append(event)
        return found

    return lambda events, last: asyncio.run(asked(events, last))


def pcm_of(events: list[Event]) -> tuple[bytes, int]:
    chunks = [AudioChunk.from_event(one) for one in events if AudioChunk.is_type(one.type)]
    (rate,) = {one.rate for one in chunks}
    return b"".join(one.audio for one in chunks), rate


def at_16_khz(pcm: bytes, rate: int) -> bytes:
    samples = struct.unpack(f"<{len(pcm) // 2}h", pcm)
    places = (at * rate / 16_000 for at in range(len(samples) * 16_000 // rate - 1))
    mixed = ((math.floor(at), at - math.floor(at)) for at in places)
    return b"".join(struct.pack("<h", round(samples[i] * (1 - s) + samples[i + 1] * s)) for i, s in mixed)


@shows("models")
def test_describe(ask: Any) -> None:
    info = Info.from_event(ask([Describe()], Info)[-1])
    (asr,), (tts,), (handle,) = info.asr, info.tts, info.handle
    assert asr.models[0].languages == ["en"]
    assert asr.supports_transcript_streaming
    assert tts.voices[0].languages
    assert tts.supports_synthesize_streaming
    assert handle.models[0].name == "smollm2-135m-instruct"


@shows("speech")
def test_speech_and_back(ask: Any) -> None:
    pcm, rate = pcm_of(ask([Synthesize(SENTENCE)], AudioStop))
    assert 1 < len(pcm) / 2 / rate < 6
    sound = at_16_khz(pcm, rate)
    form = {"rate": 16_000, "width": 2, "channels": 1}
    events = [Transcribe(language="en"), AudioStart(**form)]
    events += [AudioChunk(audio=sound[at : at + 2048], **form) for at in range(0, len(sound), 2048)]
    text = Transcript.from_event(ask([*events, AudioStop()], Transcript)[-1]).text
    assert "quick brown fox" in text.lower()


@shows("transcription")
def test_silence(ask: Any) -> None:
    form = {"rate": 16_000, "width": 2, "channels": 1}
    silence = AudioChunk(audio=bytes(32_000), **form)
    assert Transcript.from_event(ask([AudioStart(**form), silence, AudioStop()], Transcript)[-1]).text == ""


@shows("streams")
def test_speech_of_a_text_in_parts(ask: Any) -> None:
    voice = SynthesizeVoice(language="en")
    parts = [SynthesizeChunk(SENTENCE[:20]), SynthesizeChunk(f"{SENTENCE[20:]} Then it sle"), SynthesizeChunk("eps.")]
    whole = Synthesize(f"{SENTENCE} Then it sleeps.", voice=voice)
    pcm, rate = pcm_of(ask([SynthesizeStart(voice=voice), *parts, whole, SynthesizeStop()], SynthesizeStopped))
    once, _ = pcm_of(ask([whole], AudioStop))
    assert abs(len(pcm) - len(once)) / 2 / rate < 1.5


@shows("chat")
def test_conversation(ask: Any) -> None:
    context = {"conversation_id": "01J", "device_id": None, "satellite_id": None}
    asked = Transcript("Name a bird in one word.", context=context, language="en")
    events = ask([asked], Handled)
    answer = Handled.from_event(events[-1])
    assert answer.text
    assert "".join(HandledChunk.from_event(one).text for one in events if HandledChunk.is_type(one.type)).strip()
    assert answer.context == {"conversation_id": "01J"}


@shows("errors")
def test_unknown_events_are_survived(ask: Any) -> None:
    class New:
        def event(self) -> Event:
            return Event("some-new-event", {"a": 1}, b"payload")

    assert Pong.from_event(ask([New(), Ping("still there?")], Pong)[-1]).text == "still there?"
