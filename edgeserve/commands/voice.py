"""A conversation by voice over ``/v1/realtime``: the server hears the microphone, and finds the turns."""

from __future__ import annotations

import base64
import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from edgeserve.commands.line import Line
from edgeserve.commands.playback import Playback
from edgeserve.errors import EdgeserveError
from edgeserve.messages import AudioEvent

RATE = 24_000
"""Hz of both directions, the only rate that the protocol has for int16."""
END_SECONDS = 1.0
"""Time for the microphone's thread to see the end: ten pieces."""
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"
OVER = "response_cancel_not_active"
"""The answer ended before the server saw that it was to stop."""


class Recorder(Protocol):
    """A microphone."""

    def recording(self) -> contextlib.AbstractContextManager[Iterator[bytes]]: ...


class Voice:
    """One conversation. ``headphones``: the microphone does not hear the answers, so that speech may interrupt them."""

    def __init__(self, line: Line, playback: Playback, *, headphones: bool = False) -> None:
        self._line, self._playback, self._headphones = line, playback, headphones
        self._answer = ""
        """Id of the answer under way."""
        self._stopped = ""
        """Id of an answer whose further events are dropped."""
        self._writes = False
        """Whether a line of text has begun."""

    def begin(self, system: str = "", voice: str | None = None, language: str | None = None) -> None:
        """Send the settings of the session."""
        audio: dict[str, Any] = {"input": {"transcription": {"language": language} if language else {}}}
        if voice:
            audio["output"] = {"voice": voice}
        self._line.send("session.update", session={"type": "realtime", "instructions": system, "audio": audio})

    def talk(self, microphone: Recorder) -> None:
        """Talk until Ctrl-C while no answer is under way. Raises EdgeserveError."""
        news: queue.SimpleQueue[dict[str, Any] | EdgeserveError] = queue.SimpleQueue()
        ending = threading.Event()
        with microphone.recording() as pieces:
            threads = [
                threading.Thread(target=_watched, args=(work, news), name=name, daemon=True)
                for name, work in (
                    ("microphone", lambda: self._hear(pieces, ending)),
                    ("server", lambda: _put(self._line.events(), news)),
                )
            ]
            for one in threads:
                one.start()
            try:
                self._follow(news)
            finally:
                ending.set()
                self._playback.stop()
                threads[0].join(END_SECONDS)

    def _follow(self, news: queue.SimpleQueue[dict[str, Any] | EdgeserveError]) -> None:
        while True:
            try:
                event = news.get()
                if isinstance(event, EdgeserveError):
                    raise event
                self.take(event)
            except KeyboardInterrupt:
                if not self.interrupt():
                    print()
                    return

    def _hear(self, pieces: Iterator[bytes], ending: threading.Event) -> None:
        for piece in pieces:
            if ending.is_set():
                return
            # Silence, not nothing: the server's time is that of the sound.
            sound = piece if self._headphones or not self._playback.audible else bytes(len(piece))
            self._line.send("input_audio_buffer.append", audio=base64.b64encode(sound).decode())

    def take(self, event: dict[str, Any]) -> None:
        """Follow an event of the server."""
        if event.get("response_id", "") == self._stopped != "":
            return
        match event["type"]:
            case "input_audio_buffer.speech_started":
                self._stop()
            case "response.created":
                self._answer = event["response"]["id"]
            case "response.output_audio_transcript.delta":
                self._write(event["delta"])
            case "response.output_audio.delta":
                self._playback.add(event["item_id"], AudioEvent(base64.b64decode(event["delta"]), RATE))
            case "response.done":
                self._end(event["response"]["id"])
            case kind if kind == TRANSCRIBED and event["transcript"].strip():
                self._write(f"> {event['transcript'].strip()}")
                self._end_line()
            case "error" if event["error"].get("code") != OVER:
                # The conversation continues after an error, such as one of an engine.
                print(f"[ERROR] {event['error'].get('message')}", file=sys.stderr)

    def interrupt(self) -> bool:
        """Stop the answer under way. Returns whether there was one."""
        if self._answer:
            self._line.send("response.cancel", response_id=self._answer)
            self._stopped, self._answer = self._answer, ""
        elif not self._playback.playing:
            return False
        self._stop()
        self._write(" (stopped)")
        self._end_line()
        return True

    def _stop(self) -> None:
        """End the sound, and let the server forget what nobody heard."""
        if (heard := self._playback.stop()) is not None:
            place = {"item_id": self._playback.item, "content_index": 0, "audio_end_ms": round(heard * 1000)}
            self._line.send("conversation.item.truncate", **place)

    def _end(self, answer: str) -> None:
        if answer == self._answer:
            self._answer = ""
            self._playback.finish()
            self._end_line()

    def _write(self, text: str) -> None:
        print(text, end="", flush=True)
        self._writes = True

    def _end_line(self) -> None:
        if self._writes:
            print(flush=True)
        self._writes = False


def _put(events: Iterator[dict[str, Any]], news: queue.SimpleQueue[dict[str, Any] | EdgeserveError]) -> None:
    for event in events:
        news.put(event)


def _watched(work: Callable[[], None], news: queue.SimpleQueue[dict[str, Any] | EdgeserveError]) -> None:
    """Do the work of a thread. Its error goes to the one who follows."""
    try:
        work()
    except EdgeserveError as error:
        news.put(error)
