"""A conversation by voice with a server that has no Realtime: one turn after the other.

The microphone is closed while the answer is heard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Protocol

from edgeserve.audio.clip import Clip
from edgeserve.audio.wav import wav
from edgeserve.commands.microphone import Microphone
from edgeserve.commands.player import Player
from edgeserve.commands.remote import Server
from edgeserve.commands.served import Served
from edgeserve.commands.utterances import utterance
from edgeserve.errors import EdgeserveError
from edgeserve.messages import (
    AudioEvent,
    ChatEvent,
    ChatRequest,
    Message,
    SegmentEvent,
    SpeakRequest,
    TextPart,
    TokenEvent,
    TranscribeEvent,
    TranscribeRequest,
)
from edgeserve.sound import INPUT_SAMPLE_RATE
from edgeserve.talk.clauses import Clauses


class Loudspeaker(Protocol):
    """Plays one answer. A context manager: leaving it early ends the sound."""

    def __enter__(self) -> Loudspeaker: ...

    def __exit__(self, *ignored: object) -> None: ...

    def add(self, event: AudioEvent) -> None: ...

    def end(self) -> None: ...


def take_turns(conversation: Conversation, microphone: Microphone) -> None:
    """Take turns until Ctrl-C."""
    while True:
        try:
            with microphone.recording() as pieces:
                sound = utterance(pieces)
        except KeyboardInterrupt:
            print()
            return
        try:
            conversation.turn(sound)
        except KeyboardInterrupt:
            print(" (stopped)")
        except EdgeserveError as error:
            # The conversation continues after an error, such as a full context.
            print(f"[ERROR] {error}", file=sys.stderr)


class Conversation:
    """The turns so far. ``speaker`` makes a loudspeaker for an answer."""

    def __init__(
        self,
        server: Server,
        environ: Mapping[str, str],
        system: str = "",
        voice: str | None = None,
        language: str | None = None,
        speaker: Callable[[Mapping[str, str]], Loudspeaker] = Player,
    ) -> None:
        self._served, self._environ = Served(server), environ
        self._voice, self._language, self._speaker = voice, language, speaker
        self._system = (Message("system", (TextPart(system),)),) if system else ()
        self._turns: tuple[Message, ...] = ()

    def turn(self, sound: bytes) -> None:
        """Answer what was said, int16 mono at 16 kHz. Nothing understood is no turn.

        An answer that Ctrl-C interrupted is kept as far as it was written. Raises EdgeserveError.
        """
        if not (said := self.heard(sound)):
            return
        print(f"> {said}", flush=True)
        turns = (*self._turns, Message("user", (TextPart(said),)))
        written: list[str] = []
        try:
            self._answer(turns, written)
        finally:
            if written:
                self._turns = (*turns, Message("assistant", (TextPart("".join(written)),)))

    def heard(self, sound: bytes) -> str:
        """The words of an utterance."""
        segments: list[str] = []

        def take(event: TranscribeEvent) -> None:
            if isinstance(event, SegmentEvent):
                segments.append(event.text)

        clip = Clip(wav([sound], INPUT_SAMPLE_RATE), max_seconds=60.0)
        self._served.ask(TranscribeRequest(clip, self._language), take)
        return "".join(segments).strip()

    def _answer(self, turns: tuple[Message, ...], written: list[str]) -> None:
        """Print and speak the answer, clause by clause: the sound begins while the rest is written."""
        clauses = Clauses()
        with self._speaker(self._environ) as loudspeaker:
            spoken = False

            def speak(pieces: list[str]) -> None:
                nonlocal spoken
                for piece in filter(str.strip, pieces):
                    self._served.ask(SpeakRequest(piece.strip(), self._voice), loudspeaker.add)
                    spoken = True

            def take(event: ChatEvent) -> None:
                if isinstance(event, TokenEvent):
                    print(event.text, end="", flush=True)
                    written.append(event.text)
                    speak(clauses.feed(event.text))

            self._served.ask(ChatRequest(self._system + turns), take)
            print(flush=True)
            speak(clauses.end())
            if spoken:
                loudspeaker.end()
