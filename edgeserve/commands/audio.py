"""``edgeserve transcribe`` and ``edgeserve speak``: files of speech in and out."""

from __future__ import annotations

import io
import sys
import wave
from pathlib import Path

from edgeserve.commands import Call
from edgeserve.commands.session import open_session
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, SpeakRequest
from edgeserve.terminal import is_terminal


def speak(call: Call) -> int:
    args = call.args
    text = sys.stdin.read() if args.text == "-" else args.text
    if not text.strip():
        raise InvalidRequest("the text is empty", param="text")
    if not 0.25 <= args.speed <= 4.0:
        raise InvalidRequest(f"--speed {args.speed:g}: expected 0.25 to 4.0", param="speed")
    check_output(args.output)
    events: list[AudioEvent] = []
    with open_session(call, "tts") as session:
        session.ask(SpeakRequest(text.strip(), args.voice, args.speed), events.append)
    # Written when all of it is there: a file that is there is whole.
    wav = to_wav(events)
    if args.output == "-":
        sys.stdout.buffer.write(wav)
    else:
        Path(args.output).write_bytes(wav)
    return 0


def check_output(output: str) -> None:
    """Told before the work is done, not after."""
    if output == "-":
        if is_terminal(sys.stdout):
            raise InvalidRequest("-o - writes WAV bytes, which a terminal cannot show; redirect them or name a file")
    elif not Path(output).absolute().parent.is_dir():
        raise InvalidRequest(f"-o {output}: there is no such directory")


def to_wav(events: list[AudioEvent]) -> bytes:
    """A WAV file of all pieces, which share one rate. Raises EngineFailure when there is no piece."""
    if not events:
        raise EngineFailure("the engine made no sound of this text")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(events[0].sample_rate)
        for event in events:
            out.writeframesraw(event.pcm)
    return file.getvalue()
