"""The microphone, through a program of the system or the package sounddevice."""

from __future__ import annotations

import contextlib
import queue
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

from edgeserve.dataclass import dataclass
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.sound import INPUT_SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Program:
    """A program that writes int16 little-endian mono to stdout until it is ended. ``arguments`` with {rate} in Hz."""

    name: str
    arguments: str


PROGRAMS = (
    Program("parec", "--raw --format=s16le --channels=1 --rate={rate} --latency-msec=50"),
    Program("arecord", "-q -t raw -f S16_LE -c 1 -r {rate}"),
    Program("rec", "-q -t raw -e signed -b 16 -L -c 1 -r {rate} -"),
)
"""Programs of PulseAudio, ALSA and SoX, the preferred first."""


class Microphone:
    """Makes recordings at ``rate`` Hz. Nothing is recorded outside ``recording``."""

    def __init__(self, environ: Mapping[str, str], rate: int = INPUT_SAMPLE_RATE) -> None:
        """Raises NotSupported where nothing can record."""
        self._rate, self._piece = rate, rate // 10 * 2
        found = ((shutil.which(one.name, path=environ.get("PATH", "")), one) for one in PROGRAMS)
        self._path, self._program = next(((path, one) for path, one in found if path), ("", PROGRAMS[0]))
        self._device: Any = None if self._path else _sounddevice()

    @contextlib.contextmanager
    def recording(self) -> Iterator[Iterator[bytes]]:
        """Pieces of a tenth of a second, int16 little-endian mono, as they come. Raises EngineFailure."""
        with self._by_program() if self._path else self._by_package() as pieces:
            yield pieces

    @contextlib.contextmanager
    def _by_program(self) -> Iterator[Iterator[bytes]]:
        command = [self._path, *self._program.arguments.format(rate=self._rate).split()]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # noqa: S603
        stdout = cast(IO[bytes], process.stdout)
        try:
            yield self._read(process, stdout)
        finally:
            process.kill()
            stdout.close()
            process.wait()

    def _read(self, process: subprocess.Popen[bytes], stdout: IO[bytes]) -> Iterator[bytes]:
        while piece := stdout.read(self._piece):
            yield piece
        raise EngineFailure(f"{self._program.name} records nothing; it ended with exit code {process.wait()}")

    @contextlib.contextmanager
    def _by_package(self) -> Iterator[Iterator[bytes]]:
        pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        try:
            with self._device.RawInputStream(
                samplerate=self._rate,
                blocksize=self._piece // 2,
                channels=1,
                dtype="int16",
                callback=lambda data, *_: pieces.put(bytes(data)),
            ):
                yield iter(pieces.get, b"")
        except self._device.PortAudioError as error:
            raise EngineFailure(f"the microphone cannot be opened: {error}") from error


def _sounddevice() -> Any:
    """The package. Raises NotSupported where it is not installed, or finds no PortAudio."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        names = ", ".join(one.name for one in PROGRAMS)
        raise NotSupported(
            f"there is no program for the microphone ({names}): install one, or the package sounddevice "
            f"(pip install 'edgeserve[microphone]'): {error}"
        ) from error
    return sounddevice
