"""Playback through a player of the system."""

from __future__ import annotations

import contextlib
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from typing import IO, cast

from edgeserve.audio.encode import FORMS
from edgeserve.audio.wav import wav
from edgeserve.dataclass import dataclass
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.messages import AudioEvent


@dataclass(frozen=True, slots=True)
class Program:
    """A player. ``arguments`` with {rate} in Hz; ``reads``: "wav" or "pcm" from stdin, or "file", the last argument."""

    name: str
    arguments: str
    reads: str


PROGRAMS = (
    Program("ffplay", "-nodisp -autoexit -loglevel error -i -", "wav"),
    Program("paplay", "--raw --format=s16le --channels=1 --rate={rate}", "pcm"),
    Program("aplay", "-q -t raw -f S16_LE -c 1 -r {rate}", "pcm"),
    Program("afplay", "", "file"),
)
"""Players, the preferred first: those that play a stream, then afplay of macOS, which needs a whole file."""


class Player:
    """Plays sound while more is made. A context manager: leaving it early ends the sound."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises NotSupported where no player is installed."""
        found = ((shutil.which(one.name, path=environ.get("PATH", "")), one) for one in PROGRAMS)
        self._path, self._program = next(((path, one) for path, one in found if path), ("", PROGRAMS[0]))
        if not self._path:
            names = ", ".join(one.name for one in PROGRAMS)
            raise NotSupported(f"there is no player for the sound ({names}): install one, or name a file with -o")
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._feeder: threading.Thread | None = None
        self._whole: list[AudioEvent] = []
        self._file: IO[bytes] | None = None

    @property
    def playing(self) -> bool:
        """Whether sound is left to play, or more may come."""
        return self._process is not None and self._process.poll() is None

    def add(self, event: AudioEvent) -> None:
        """Queue the sound of an event; returns at once. Raises EngineFailure where the player has failed."""
        if self._program.reads == "file":
            self._whole.append(event)
            return
        if self._process is None:
            self._start(event.sample_rate)
        elif code := self._process.poll():
            raise self._failure(code)
        self._pieces.put(event.pcm)

    def finish(self) -> None:
        """Play what is left; returns at once. No sound comes after it."""
        if self._program.reads == "file" and self._process is None:
            self._start_whole()
        self._pieces.put(None)

    def end(self) -> None:
        """Wait for the last sample. Raises EngineFailure when the player fails."""
        self.finish()
        if self._process is None:
            raise EngineFailure("the engine made no sound of this text")
        if code := self._process.wait():
            raise self._failure(code)

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._process is not None:
            self._process.kill()  # without effect on an ended process
            self._process.wait()
        if self._feeder is not None:
            self._pieces.put(None)
            self._feeder.join()
        if self._file is not None:
            self._file.close()

    def _failure(self, code: int) -> EngineFailure:
        return EngineFailure(f"{self._program.name} could not play the sound; it ended with exit code {code}")

    def _start(self, rate: int) -> None:
        command = [self._path, *self._program.arguments.format(rate=rate).split()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # noqa: S603
        stdin = cast(IO[bytes], self._process.stdin)
        self._feeder = threading.Thread(target=self._feed, args=(stdin, rate), name="player", daemon=True)
        self._feeder.start()

    def _feed(self, stdin: IO[bytes], rate: int) -> None:
        """Write to the player, on a thread: the player reads no faster than it plays."""
        encoder = FORMS["wav"].encoder(rate) if self._program.reads == "wav" else None
        with contextlib.suppress(BrokenPipeError), stdin:  # the exit code says why the player ended
            while (pcm := self._pieces.get()) is not None:
                stdin.write(encoder.add(pcm) if encoder else pcm)
                stdin.flush()

    def _start_whole(self) -> None:
        if not self._whole:
            return
        self._file = cast(IO[bytes], tempfile.NamedTemporaryFile(suffix=".wav"))  # noqa: SIM115 - open while it plays
        self._file.write(wav((event.pcm for event in self._whole), self._whole[0].sample_rate))
        self._file.flush()
        self._process = subprocess.Popen([self._path, self._file.name])  # noqa: S603
