"""One server, used step by step and then left alone, its memory sampled throughout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.ask import Answer, Client
from benchmarks.device import Device
from benchmarks.process import Memory, ServerProcess, memory_of_all, serving
from benchmarks.sampling import Record, Sampler

from edgeserve.jobs import JOBS, Job

CONSULTATION = (
    "Good morning. I have had a sore throat and a fever since Monday. Does it hurt to swallow? Yes, and I have a "
    "headache as well. Your temperature is thirty eight point five and your throat is red. Drink a lot, rest, and come "
    "back on Friday if it is not better."
)
SENTENCE = "Good morning, I have had a sore throat and a fever since Monday."
PROMPT = "Tell me something about the sea."
QUESTION = "What is the color?"


@dataclass(frozen=True, slots=True)
class Pace:
    """The reference's idle periods, shortened: ``minute`` real seconds stand for one of its minutes."""

    minute: float = 4.0

    @property
    def residency(self) -> dict[str, float]:
        """[residency] with the server's defaults of 60, 300 and 30 s at this pace."""
        return {"warm_after": self.minute, "idle_timeout": 5 * self.minute, "check_interval": self.minute / 2}

    def seconds(self, reference: float) -> float:
        return reference * self.minute / 60

    def idle(self, minutes: float) -> float:
        """Seconds after which the idle monitor has surely acted on so many minutes, and half a round for its work."""
        return minutes * self.minute + 1.5 * self.residency["check_interval"] if minutes else 0.0


Request = Callable[[Client], Answer]


def requests(device: Device, recording: bytes) -> dict[str, Request]:
    """The requests of the scenarios, by name."""
    return {
        "chat": lambda client: client.chat(PROMPT, 96),
        "soap": lambda client: client.soap(CONSULTATION, 96),
        "see": lambda client: client.see(device.picture, QUESTION, 16),
        "transcribe": lambda client: client.transcribe(recording),
        "speak": lambda client: client.speak(SENTENCE),
    }


ENGINE: Mapping[str, Job] = {"chat": "llm", "soap": "llm", "see": "vision", "transcribe": "asr", "speak": "tts"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """``steps`` name requests, asked one after the other and then all at once. ``keys``: lines for every engine's
    table. ``lazy``: closed again before the first sample and when idle, so that nothing is mapped but in use."""

    name: str
    jobs: tuple[Job, ...]
    steps: tuple[str, ...]
    reference_peak: str
    reference_idle: str
    keys: str = ""
    lazy: bool = False
    override_mb: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """``firsts``: seconds to the first token, sound or text of each engine's first request."""

    scenario: Scenario
    record: Record
    start: Memory
    peak: Memory
    idle: Memory
    firsts: dict[Job, float] = field(default_factory=dict)


def record_speech(device: Device, *texts: str) -> list[bytes]:
    """Recordings to transcribe, said by the device's own voice."""
    with serving(device.config("voice", ["tts"]), environ=device.environ) as server:
        server.wait_healthy()
        return [Client(server.port).speak(text).body for text in texts]


@contextmanager
def sampled(
    device: Device, scenario: Scenario, residency: Mapping[str, float]
) -> Iterator[tuple[ServerProcess, Sampler]]:
    """A healthy server of this scenario under a sampler."""
    config = device.config(scenario.name, scenario.jobs, scenario.keys, residency=residency)
    environ = dict(device.environ)
    if scenario.override_mb:
        environ["EDGESERVE_OVERRIDE_MEMORY_MB"] = str(scenario.override_mb)
    with serving(config, "--log-level", "warning", environ=environ) as server:
        server.wait_healthy()
        if scenario.lazy:
            close_all(server, scenario.jobs)
        with Sampler(server.pid, read=memory_of_all) as sampler:
            yield server, sampler


def close_all(server: ServerProcess, jobs: tuple[Job, ...] = JOBS) -> None:
    for job in jobs:
        Client(server.port).post(f"/memory/evict/{job}")


def run(device: Device, scenario: Scenario, asked: Mapping[str, Request], pace: Pace) -> Run:
    firsts: dict[Job, float] = {}
    with sampled(device, scenario, pace.residency) as (server, sampler):
        start, client = sampler.sample().memory, Client(server.port)
        for name in scenario.steps:
            with sampler.span(name):
                firsts.setdefault(ENGINE[name], asked[name](client).first)
        with sampler.span("all at once"), ThreadPoolExecutor(len(scenario.steps)) as threads:
            answers = [threads.submit(asked[name], client) for name in scenario.steps]
            for answer in answers:
                answer.result()
        used = sampler.now
        with sampler.span("idle"):
            time.sleep(pace.idle(5))
        if scenario.lazy:
            with sampler.span("closed"):
                close_all(server, scenario.jobs)
        idle = sampler.sample().memory
    peak = max((one.memory for one in sampler.record.between(0.0, used)), key=lambda memory: memory.pss)
    return Run(scenario, sampler.record, start, peak, idle, firsts)
