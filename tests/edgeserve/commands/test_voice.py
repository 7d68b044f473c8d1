"""A conversation over Realtime, with a microphone and a loudspeaker of the test."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server import Running, fake_pool, serving, until
from support.sound import pcm24, silence, speech

from edgeserve.commands.line import Line, open_line
from edgeserve.commands.playback import Playback
from edgeserve.commands.remote import Server
from edgeserve.commands.voice import RATE, Voice
from edgeserve.errors import EngineFailure
from edgeserve.messages import AudioEvent

OFF = "the microphone is off"
PIECE = RATE // 10 * 2


class Speaker:
    """A speaker that plays until it is stopped, or, where it has all its sound, until it is asked."""

    heard: list[bytes]

    def __init__(self, *, ends: bool = True) -> None:
        self.playing, self._ends = True, ends
        type(self).heard = []

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.playing = False

    def add(self, event: AudioEvent) -> None:
        self.heard.append(event.pcm)

    def finish(self) -> None:
        self.playing = not self._ends


class Script:
    """A microphone that hears ``sounds``, float32 at 16 kHz. It waits where a function stands among them."""

    def __init__(self, *sounds: bytes | Callable[[], bool]) -> None:
        self._sounds = sounds

    @contextlib.contextmanager
    def recording(self) -> Iterator[Iterator[bytes]]:
        yield self._pieces()

    def _pieces(self) -> Iterator[bytes]:
        for sound in self._sounds:
            if callable(sound):
                until(sound)
                continue
            data = pcm24(sound)
            yield from (data[at : at + PIECE] for at in range(0, len(data), PIECE))
        raise EngineFailure(OFF)


class Known(Line):
    """A connection that notes the events of both sides."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.sent: list[dict[str, Any]] = []
        self.seen: list[dict[str, Any]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.sent.append({"type": kind, **fields})
        self._line.send(kind, **fields)

    def events(self) -> Iterator[dict[str, Any]]:
        for event in self._line.events():
            self.seen.append(event)
            yield event

    def count(self, kind: str) -> int:
        return sum(one["type"] == kind for one in self.seen)


class Nobody(Line):
    """A connection without a server."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.sent.append({"type": kind, **fields})


@pytest.fixture
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts"])) as one:
        yield one


@contextlib.contextmanager
def dialled(running: Running) -> Iterator[Known]:
    with open_line(Server(running.url.rstrip("/"))) as line:
        yield Known(line)


def test_turns(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    with dialled(running) as line:
        voice = Voice(line, Playback(Speaker))
        voice.begin("Be short.", "hum", "en")
        first = Script(silence(0.5), speech(2), silence(1), lambda: line.count("response.done") == 1)
        with pytest.raises(EngineFailure, match=OFF):
            voice.talk(first)
    said = next(one["transcript"] for one in line.seen if one["type"].endswith("transcription.completed"))
    assert capsys.readouterr().out == f"> {said}\n{said}\n"
    updated = next(one["session"] for one in line.seen if one["type"] == "session.updated")
    assert updated["instructions"] == "Be short."
    assert (updated["audio"]["output"]["voice"], updated["audio"]["input"]["transcription"]["language"]) == (
        "hum",
        "en",
    )
    assert len(b"".join(Speaker.heard)) == 2 * 2400 * len(said.split())


def test_speech_interrupts_an_answer(running: Running) -> None:
    """The answer plays on when the user speaks again. The server learns how much of it was heard."""
    with dialled(running) as line:
        voice = Voice(line, Playback(lambda: Speaker(ends=False)), headphones=True)
        voice.begin()
        script = Script(
            silence(0.5),
            speech(2),
            silence(1),
            lambda: line.count("response.done") == 1,
            speech(0.5),
            lambda: line.count("conversation.item.truncated") == 1,
        )
        with pytest.raises(EngineFailure, match=OFF):
            voice.talk(script)
    (cut,) = (one for one in line.sent if one["type"] == "conversation.item.truncate")
    item = next(one["item_id"] for one in line.seen if one["type"] == "response.output_audio.delta")
    assert cut["item_id"] == item
    assert 0 <= cut["audio_end_ms"] <= 300


def test_the_microphone_does_not_hear_the_loudspeaker() -> None:
    loud = b"\x01\x02" * 4
    for headphones in (False, True):
        line = Nobody()
        playback = Playback(lambda: Speaker(ends=False))
        voice = Voice(line, playback, headphones=headphones)
        voice._hear(iter([loud]), threading.Event())
        playback.add("a", AudioEvent(bytes(4800), RATE))
        voice._hear(iter([loud]), threading.Event())
        sent = [base64.b64decode(one["audio"]) for one in line.sent]
        assert sent == [loud, loud if headphones else bytes(8)]


def delta(answer: str) -> dict[str, Any]:
    sound = base64.b64encode(bytes(4800)).decode()
    return {"type": "response.output_audio.delta", "response_id": answer, "item_id": "item_1", "delta": sound}


def test_ctrl_c_stops_an_answer_and_then_the_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    line = Nobody()
    voice = Voice(line, Playback(Speaker))
    voice.take({"type": "response.created", "response": {"id": "resp_1"}})
    voice.take({"type": "response.output_audio_transcript.delta", "response_id": "resp_1", "delta": "One"})
    voice.take(delta("resp_1"))
    assert voice.interrupt()
    assert [one["type"] for one in line.sent] == ["response.cancel", "conversation.item.truncate"]
    heard = len(Speaker.heard)
    voice.take(delta("resp_1"))
    voice.take({"type": "response.done", "response": {"id": "resp_1"}})
    assert len(Speaker.heard) == heard
    assert capsys.readouterr().out == "One (stopped)\n"


def test_ctrl_c_without_an_answer_is_the_end() -> None:
    line = Nobody()
    assert not Voice(line, Playback(Speaker)).interrupt()
    assert line.sent == []


def test_errors_are_told_and_the_conversation_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    voice = Voice(Nobody(), Playback(Speaker))
    voice.take({"type": "error", "error": {"code": "response_cancel_not_active", "message": "there is none"}})
    voice.take({"type": "error", "error": {"code": "insufficient_memory", "message": "900 MB are missing"}})
    assert capsys.readouterr().err == "[ERROR] 900 MB are missing\n"
