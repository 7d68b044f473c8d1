"""The startup and under-load timeline of the reference, played on a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.ask import Client
from benchmarks.device import Device
from benchmarks.process import Memory
from benchmarks.sampling import Record, Sample, Sampler
from benchmarks.scenario import Pace, Request, Scenario, sampled

TIMELINE = Scenario("timeline", ("llm", "asr", "tts"), (), "", "")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the reference: seconds, event, memory.

    - ``asks``: name of the request whose first token, text or sound the line shows
    - ``idle``: minutes of waiting
    - ``peak``: whether the line shows the peak of the request before it
    """

    at: int
    event: str
    memory: str
    asks: str = ""
    idle: int = 0
    peak: bool = False


REFERENCE = (
    Line(0, "server starts", "~50 MB"),
    Line(5, "GET /v1/health", "~50 MB", asks="health"),
    Line(10, "POST /v1/chat", "~1.5 GB", asks="chat"),
    Line(11, "chat streaming", "~1.5 GB", peak=True),
    Line(15, "chat complete", "~1.5 GB"),
    Line(60, "1 min idle", "~500 MB", idle=1),
    Line(90, "POST /v1/transcribe/file", "~1.7 GB", asks="transcribe"),
    Line(95, "transcription complete", "~1.7 GB"),
    Line(120, "POST /v1/tts/synthesize", "~2.4 GB", asks="speak"),
    Line(125, "TTS complete", "~2.4 GB"),
    Line(420, "5 min idle", "~200 MB", idle=5),
    Line(600, "POST /v1/chat", "~1.5 GB", asks="chat"),
    Line(601, "POST /v1/transcribe/file", "~2.7 GB", asks="transcribe"),
)
"""hybrid-mmap-lazy-loading.md, "Under Load"."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A line of the reference beside what was measured, ``at`` real seconds after the start."""

    line: Line
    at: float
    memory: Memory


def play(device: Device, asked: Mapping[str, Request], pace: Pace) -> tuple[Record, list[Moment]]:
    requests = {**asked, "health": lambda client: client.ask("GET", "/v1/health")}
    with sampled(device, TIMELINE, pace.residency) as (server, sampler):
        moments = list(_moments(Client(server.port), sampler, requests, pace))
    return sampler.record, moments


def _moments(client: Client, sampler: Sampler, asked: Mapping[str, Request], pace: Pace) -> Iterator[Moment]:
    before, began = 0, 0.0
    for line in REFERENCE:
        if line.asks:
            time.sleep(pace.seconds(line.at - before))
            began = sampler.now
            with sampler.span(line.event):
                first = asked[line.asks](client).first
            yield _moment(line, sampler.record.between(began + first, began + first)[0])
        elif line.peak:
            yield _moment(line, max(sampler.record.between(began, sampler.now), key=lambda one: one.memory.pss))
        else:
            with sampler.span(line.event):
                time.sleep(pace.idle(line.idle))
            yield _moment(line, sampler.sample())
        before = line.at


def _moment(line: Line, sample: Sample) -> Moment:
    return Moment(line, sample.at, sample.memory)
