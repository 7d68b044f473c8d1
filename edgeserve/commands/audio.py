"""``edgeserve transcribe``: files of speech as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgeserve.commands import Call
from edgeserve.commands.output import check_output, write_output
from edgeserve.commands.session import open_session
from edgeserve.errors import InvalidRequest
from edgeserve.messages import SegmentEvent, TranscribeEvent, TranscribeRequest
from edgeserve.terminal import ProgressBar, is_terminal

if TYPE_CHECKING:
    from edgeserve.api.sound.transcripts import Transcript


LONG_SECONDS = 60.0
"""Length of audio from which the command reports progress."""
ENDINGS = {".txt": "text", ".srt": "srt", ".vtt": "vtt", ".json": "json"}


def transcribe(call: Call) -> int:
    from edgeserve.audio.clip import check_audio

    args = call.args
    form = _form(args.format, args.output)
    data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    audio = check_audio(data, call.config().server.max_audio_seconds, args.file)
    request = TranscribeRequest(audio, args.language, translate=args.translate)
    at_once = form == "text" and args.output == "-"
    printer, transcript = Printer(), _transcript(form)
    with open_session(call, "asr") as session, ProgressBar(sys.stderr) as bar:
        progress = Progress(request, args.file, bar, quiet=at_once and is_terminal(sys.stdout))

        def take(event: TranscribeEvent) -> None:
            if at_once:
                printer.take(event)
            transcript.feed(0, event)
            progress.take(event)

        session.ask(request, take)
    if at_once:
        print()
        return 0
    text = transcript.end().decode().rstrip() + "\n"
    # Written at the end: a file that exists is complete.
    write_output(args.output, text.encode())
    return 0


def _form(named: str | None, output: str) -> str:
    """The format from ``--format``, else from the file's ending. Checked before the work begins."""
    if output == "-":
        return named or "text"
    check_output(output)
    form = named or ENDINGS.get(Path(output).suffix.lower())
    if form is None:
        raise InvalidRequest(f"-o {output}: end the name in {', '.join(ENDINGS)}, or choose with --format")
    return form


def _transcript(form: str) -> Transcript:
    from edgeserve.api.sound import transcripts

    kinds = {"text": transcripts.Plain, "json": transcripts.Native, "srt": transcripts.Srt, "vtt": transcripts.Vtt}
    return kinds[form]()


class Progress:
    """Reports the progress of a long transcription. ``quiet``: the printed text shows the progress."""

    def __init__(self, request: TranscribeRequest, label: str, bar: ProgressBar, *, quiet: bool) -> None:
        self._label = "stdin" if label == "-" else label
        self._bar, self._quiet = bar, quiet
        self._total = request.audio.seconds
        self._tell(0.0)

    def take(self, event: TranscribeEvent) -> None:
        self._tell(event.end if isinstance(event, SegmentEvent) else event.duration)

    def _tell(self, done: float) -> None:
        if not self._quiet and max(done, self._total) >= LONG_SECONDS:
            self._bar.update(self._label, done, self._total, "seconds")


class Printer:
    """Prints segments as they become certain; together they are the transcript."""

    def __init__(self) -> None:
        self._begun = False

    def take(self, event: TranscribeEvent) -> None:
        if isinstance(event, SegmentEvent):
            print(event.text if self._begun else event.text.lstrip(), end="", flush=True)
            self._begun = True
