"""``edgeserve transcribe``: files of speech as text."""

from __future__ import annotations

import sys
from pathlib import Path

from edgeserve.commands import Call
from edgeserve.commands.session import open_session
from edgeserve.messages import SegmentEvent, TranscribeEvent, TranscribeRequest


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
