"""``edgeserve transcribe`` and ``edgeserve speak``: files of speech in and out."""

from __future__ import annotations

import sys
from pathlib import Path

from edgeserve.commands import Call
from edgeserve.commands.session import open_session
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, SegmentEvent, SpeakRequest, TranscribeEvent, TranscribeRequest
from edgeserve.terminal import is_terminal


def transcribe(call: Call) -> int:
    from edgeserve.api import transcripts
    from edgeserve.api.limits import Limits
    from edgeserve.audio.clip import check_audio

    args = call.args
    data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    audio = check_audio(data, Limits().max_audio_seconds, args.file)
    forms = {"json": transcripts.Native, "srt": transcripts.Srt, "vtt": transcripts.Vtt}
    with open_session(call, "asr") as session:
        request = TranscribeRequest(audio, args.language)
        if args.format == "text":
            session.ask(request, Printer().take)
            print()
        else:
            whole = forms[args.format]()
            session.ask(request, lambda event: whole.feed(0, event))
            print(whole.end().decode().rstrip())
    return 0


class Printer:
    """Prints segments as they become certain; together they are the text."""

    def __init__(self) -> None:
        self._begun = False

    def take(self, event: TranscribeEvent) -> None:
        if isinstance(event, SegmentEvent):
            print(event.text if self._begun else event.text.lstrip(), end="", flush=True)
            self._begun = True


def speak(call: Call) -> int:
    from edgeserve.audio.wav import wav

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
    if not events:
        raise EngineFailure("the engine made no sound of this text")
    # Written when all of it is there: a file that exists is whole.
    file = wav((event.pcm for event in events), events[0].sample_rate)
    if args.output == "-":
        sys.stdout.buffer.write(file)
    else:
        Path(args.output).write_bytes(file)
    return 0


def check_output(output: str) -> None:
    """Told before the work is done, not after."""
    if output == "-":
        if is_terminal(sys.stdout):
            raise InvalidRequest("-o - writes WAV bytes, which a terminal cannot show; redirect them or name a file")
    elif not Path(output).absolute().parent.is_dir():
        raise InvalidRequest(f"-o {output}: there is no such directory")
