"""``edgeserve speak``: a text as a sound file, or played."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

from edgeserve.api.sound.speech import SpeechStream, WavBody
from edgeserve.audio.encode import FORMS
from edgeserve.commands import Call
from edgeserve.commands.output import check_output, write_output
from edgeserve.commands.player import Player
from edgeserve.commands.session import open_session
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, SpeakRequest
from edgeserve.system import streams
from edgeserve.terminal import is_terminal

OTHER_ENDINGS = {"": "wav", "ogg": "opus", "oga": "opus"}
"""Endings of file names beside the names of the formats."""


class Target(Protocol):
    """The receiver of the sound. A context manager."""

    def __enter__(self) -> Target: ...

    def __exit__(self, *ignored: object) -> None: ...

    def add(self, event: AudioEvent) -> None: ...

    def end(self) -> None:
        """Finish after the last event. Raises EngineFailure."""
        ...


def speak(call: Call) -> int:
    args = call.args
    text = streams.read_text("text") if args.text == "-" else streams.check_text(args.text, "text")
    if not text.strip():
        raise InvalidRequest("the text is empty", param="text")
    if not 0.25 <= args.speed <= 4.0:
        raise InvalidRequest(f"--speed {args.speed:g}: expected 0.25 to 4.0", param="speed")
    target: Target = Player(call.environ) if args.output is None else File(args.output)
    with target:
        with open_session(call, "tts") as session:
            session.ask(SpeakRequest(text.strip(), args.voice, args.speed), target.add)
        target.end()
    return 0


class File:
    """A file that is written at the end: a file that exists is complete."""

    def __init__(self, output: str) -> None:
        """The ending names the format; "-" is WAV on stdout. Raises InvalidRequest before the work."""
        self._output = output
        form = "wav" if output == "-" else _form(output)
        if output == "-" and is_terminal(sys.stdout):
            raise InvalidRequest("-o - writes WAV bytes, which a terminal cannot show; redirect them or name a file")
        check_output(output)
        self._renderer = WavBody() if form == "wav" else SpeechStream(FORMS[form].media_type, FORMS[form].encoder)
        self._parts: list[bytes] = []
        self._heard = False

    def __enter__(self) -> File:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def add(self, event: AudioEvent) -> None:
        self._heard = True
        self._parts.append(self._renderer.feed(0, event))

    def end(self) -> None:
        if not self._heard:
            raise EngineFailure("the engine made no sound of this text")
        last = self._renderer.end()
        write_output(self._output, b"".join([*self._parts, *([last] if isinstance(last, bytes) else last)]))


def _form(output: str) -> str:
    ending = Path(output).suffix.lower().removeprefix(".")
    form = OTHER_ENDINGS.get(ending, ending)
    if form not in FORMS:
        raise InvalidRequest(f"-o {output}: the ending must be one of {', '.join(f'.{name}' for name in FORMS)}")
    return form
