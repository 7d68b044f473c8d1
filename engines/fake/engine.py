"""Engines without a runtime: the reference of the contract, and the engines of the server's own tests.

Their answers are deterministic:

- Chat (engines/fake/chat.py) repeats the last user message word by word, and in JSON mode the JSON object in it. It
  calls each tool that the message names with that object; when it must call, it calls the chosen tool or the first.
- A prompt with a gap is the texts of its files, the text before the gap and the one behind it.
- Vision names the picture's size in bytes.
- A vector counts a text's words in eight bins.
- A document's relevance counts the query's words in it.
- Transcription counts seconds.
- The first sample of a second of sound is the voice of its speaker.
- Speech is one tone a word.

``options`` shape them:

    abilities  words of a chat model's facts, such as "thinking"; "insert": it takes prompts with a gap (none)
    delay      seconds each event takes (0)
    fail_on    step that raises EngineFailure: "open", "heat", "park", "close", "run", "detect" or, of a batch,
               "step" or "idle"
    fail_word  word at which a chat engine's answer raises EngineFailure (none)
    abort_word, stop_word, hang_word    words at which the process of a chat engine aborts, is stopped as by SIGSTOP, or
               computes without end (none); only for an engine in a process of its own
    leak_mb    MB that each answer takes and never returns, not even when the engine is closed (0)
    hold       folder of named pipes (os.mkfifo). The engine waits at the step of a pipe's name, or at the pipe "word"
               before each event, until a writer has opened and closed the pipe (no folder)
    mapped_mb, private_mb, request_mb    figures of ``estimate`` and ``footprint`` (100, 20, 5)
    detects    transcription has a detector of speech (no)
    languages  language codes of transcription (none: unknown)
    prefix_cache_mb    size of a chat engine's prefix cache after an answer (0)
    idle_mb    MB that the idle work of a batching chat engine adds to its prefix cache, one in each step (0)

A file of the role "model" begins and ends with ``MARK``. An open engine maps it, and reads its end before each event.
So a file that is cut meanwhile ends the process with SIGBUS, as the weights of a runtime do.
"""

from __future__ import annotations

import array
import functools
import math
import mmap
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.engine_abilities import Access
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import (
    INPUT_SAMPLE_RATE,
    Audio,
    AudioEvent,
    DetectRequest,
    Rest,
    SegmentEvent,
    SpeakRequest,
    SpeechChances,
    TranscribeEvent,
    TranscribeRequest,
    TranscriptEnd,
)
from edgeserve.units import MB

SECOND_BYTES = INPUT_SAMPLE_RATE * 4
FRAME_BYTES, SWING = 4 * 512, -0.005
MARK = b"fake"
ENGLISH = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class FakeEngine:
    """The residency ladder without a model. ``steps`` records every step that the engine took."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.steps: list[str] = []
        self.on_work: Callable[[], None] = lambda: None
        """Called at each step and before each event; a test may wait or raise here."""
        self._leaked: list[bytes] = []
        self._mapped: mmap.mmap | None = None
        self._rung = Rung.COLD
        self._delay = self._number("delay", 0.0)
        self._pause = threading.Event()

    def _number(self, name: str, default: float) -> float:
        value = self.spec.options.get(name, default)
        if not isinstance(value, int | float):
            raise InvalidRequest(f"option {name} must be a number, not {value!r}", param=name)
        return float(value)

    @property
    def rung(self) -> Rung:
        return self._rung

    def estimate(self) -> Footprint:
        return Footprint(
            mapped=int(self._number("mapped_mb", 100) * MB),
            private=int(self._number("private_mb", 20) * MB),
            per_request=int(self._number("request_mb", 5) * MB),
        )

    def footprint(self) -> Footprint:
        full = self.estimate() if self._rung is Rung.HOT else Footprint()
        return Footprint(mapped=full.mapped, private=full.private + sum(map(len, self._leaked)))

    def access(self) -> Access:
        hold = self.spec.options.get("hold")
        return Access(read=(Path(str(hold)),) if hold else ())

    def open(self) -> None:
        if self._rung is Rung.COLD:
            self._step("open", Rung.WARM)

    def heat(self) -> None:
        self._require(Rung.WARM)
        if self._rung is Rung.WARM:
            self._step("heat", Rung.HOT)

    def park(self) -> None:
        if self._rung is Rung.HOT:
            self._step("park", Rung.WARM)

    def close(self) -> None:
        if self._rung is not Rung.COLD:
            self._step("close", Rung.COLD)

    def _step(self, name: str, to: Rung) -> None:
        self.steps.append(name)
        self._work(name)
        self._fail(name)
        if name == "open" and "model" in self.spec.files:
            self._mapped = _map(self.spec.files["model"])
        elif name == "close":
            self._mapped = None
        self._rung = to

    def _begin(self) -> None:
        """Begin an answer. Raises EngineFailure below hot, and where the engine is to fail."""
        self._require(Rung.HOT)
        self._fail("run")
        if leak := int(self._number("leak_mb", 0) * MB):
            self._leaked.append(b"x" * leak)

    def _require(self, rung: Rung) -> None:
        if self._rung < rung:
            raise EngineFailure(f"{self.spec.name} is {self._rung.name.lower()}, not {rung.name.lower()}")

    def _fail(self, step: str) -> None:
        if self.spec.options.get("fail_on") == step:
            raise EngineFailure(f"{self.spec.name} failed on {step}, as configured")

    def _hold(self, name: str) -> None:
        """Wait at the named pipe ``name``, where there is one."""
        folder = self.spec.options.get("hold")
        if folder and (pipe := Path(str(folder)) / name).is_fifo():
            pipe.read_bytes()

    def _work(self, name: str = "word") -> None:
        """Take the time of a step, or of an event; ``name``: the pipe to wait at."""
        self._hold(name)
        self.on_work()
        if self._mapped is not None:
            _ = self._mapped[-1]
        if self._delay:
            self._pause.wait(self._delay)


def _map(path: Path) -> mmap.mmap:
    """Raises EngineFailure for a file that is gone, cut or another."""
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:  # ValueError: the file is empty
        raise EngineFailure(f"{path} cannot be mapped: {error}") from error
    if mapped[: len(MARK)] != MARK or mapped[-len(MARK) :] != MARK:
        raise EngineFailure(f"{path} is no model of the fakes: it does not begin and end with {MARK!r}")
    return mapped


class FakeSpeechToText(FakeEngine):
    """One segment for each second of audio: "1", "2", …; translated "one", "two", … up to "nine".

    Silence, where all samples are zero, gives no segment. With the option ``detects``, it detects speech: frames of 512
    samples that swing below zero. Its state counts frames.
    """

    @property
    def detects(self) -> bool:
        return bool(self.spec.options.get("detects"))

    def detect(self, request: DetectRequest) -> SpeechChances:
        self._require(Rung.WARM)
        self._hold("detect")
        self._fail("detect")
        sound = request.samples
        frames = [array.array("f", sound[at : at + FRAME_BYTES]) for at in range(0, len(sound), FRAME_BYTES)]
        seen = int.from_bytes(request.state) + len(frames)
        return SpeechChances(tuple(float(min(frame) < SWING) for frame in frames), seen.to_bytes(8))

    def languages(self) -> tuple[str, ...]:
        known = self.spec.options.get("languages", ())
        return tuple(map(str, known)) if isinstance(known, Iterable) else ()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest]:
        self._begin()
        duration, first = 0.0, request.rest.at // INPUT_SAMPLE_RATE if request.rest else 0
        for index, sound in enumerate(seconds(request.audio)):
            duration = index + len(sound) / SECOND_BYTES
            if index < first:
                continue
            if cancel.is_set():
                return
            if index > first:
                yield Rest(index * INPUT_SAMPLE_RATE)
            self._work()
            if any(sound):
                said = ENGLISH[index % 9] if request.translate else index + 1
                yield SegmentEvent(float(index), duration, f" {said}")
        yield TranscriptEnd(request.language or "en", duration)


def seconds(audio: Audio) -> Iterator[bytes]:
    """The audio second by second; the last piece may be shorter."""
    held = b""
    for piece in audio.pieces():
        held += piece
        whole = len(held) // SECOND_BYTES * SECOND_BYTES
        yield from (held[at : at + SECOND_BYTES] for at in range(0, whole, SECOND_BYTES))
        held = held[whole:]
    if held:
        yield held


@functools.cache
def _second(pitch: int, rate: int) -> bytes:
    """A second of tone, 16 bits a sample: a whole number of waves, so that seconds join."""
    wave = (math.sin(2 * math.pi * pitch * at / rate) for at in range(rate))
    return struct.pack(f"<{rate}h", *(int(8000 * sample) for sample in wave))


class FakeTextToSpeech(FakeEngine):
    """A tenth of a second of tone for each word, and one event for each sentence; 24 kHz.

    Option ``slots`` (1): answers that take turns.
    """

    SAMPLE_RATE = 24_000

    @property
    def slots(self) -> int:
        return int(self._number("slots", 1))

    def voices(self) -> tuple[str, ...]:
        return ("tone", "hum")

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | Rest]:
        self._begin()
        voice = request.voice or "tone"
        if voice not in self.voices():
            raise InvalidRequest(f"unknown voice {voice!r}; voices: {', '.join(self.voices())}", param="voice")
        pitch = {"tone": 440, "hum": 110}[voice]
        first = request.rest.at if request.rest else 0
        for number, sentence in enumerate(filter(str.strip, request.text.split("."))):
            if number < first:
                continue
            if cancel.is_set():
                return
            if number > first:
                yield Rest(number)
            self._work()
            count = int(self.SAMPLE_RATE * 0.1 * len(sentence.split()) / request.speed)
            tone = _second(pitch, self.SAMPLE_RATE)
            yield AudioEvent((tone * (count // self.SAMPLE_RATE + 1))[: 2 * count], self.SAMPLE_RATE)
