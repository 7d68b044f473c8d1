"""Seconds from the end of speech to its final text, of 1 and of 8 live transcriptions at once.

    python -m benchmarks.live [--runs 5]

A real server hears sentences that its own voice has said. They arrive over the WebSocket in pieces of a tenth of a
second, as from a microphone. Each session says a sentence, then is silent. The page also shows the time to the first
words and the processor time of a second of speech. The benchmark fails when the server takes a confirmed word back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import io
import json
import statistics
import time
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
from benchmarks import device, report
from benchmarks.process import ServerProcess
from benchmarks.streams import authorization

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Once upon a time there was a little girl who lived in a village near the forest.",
    "Please bring me two cups of coffee and a glass of water.",
    "The train to the city leaves every morning at seven.",
)
SESSIONS = (1, 8)
RATE, PIECE = 16_000, 1_600
PATIENCE = 120.0
LOUD = 0.01


@dataclass(frozen=True, slots=True)
class Heard:
    """``first``: seconds from the start of speech to the first words, confirmed or not.

    ``final``: seconds from the end of speech to the final text. ``text``: the whole text."""

    first: float
    final: float
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    heard: Sequence[Heard]
    cost: float
    """Seconds of the server's processor time for a second of speech."""


async def talk(url: str, samples: Any, token: str = "") -> Heard:
    """Say float32 samples (16 kHz) in real time, then silence until the text is final. ``token``: the client's key.

    Raises RuntimeError for a word that was taken back, TimeoutError where no final text comes.
    """
    from websockets.asyncio.client import connect

    ends = next(at for at in range(len(samples), 0, -1) if abs(samples[at - 1]) > LOUD) / RATE
    data = samples.astype("<f4").tobytes()
    address = f"{url.replace('http', 'ws', 1)}/v1/transcribe/live"
    async with connect(address, additional_headers=authorization(token)) as socket, asyncio.timeout(PATIENCE):
        await socket.recv()
        started = time.perf_counter()
        sender = asyncio.create_task(_send(socket, data, started))
        try:
            first, transcript = None, ""
            while True:
                message, at = json.loads(await socket.recv()), time.perf_counter() - started
                if message["type"] != "text" or not message["transcript"].startswith(transcript):
                    raise RuntimeError(f"{message} came after {transcript!r}")
                transcript, first = message["transcript"], at if first is None else first
                if message["is_final"] and at > ends:
                    return Heard(first, at - ends, transcript)
        finally:
            sender.cancel()


async def _send(socket: Any, data: bytes, started: float) -> None:
    """In time, and silence when there is no more."""
    size, count = PIECE * 4, 0
    while True:
        await socket.send(data[count * size : (count + 1) * size].ljust(size, b"\0"))
        count += 1
        await asyncio.sleep(started + count * PIECE / RATE - time.perf_counter())


def recorded(server: ServerProcess, text: str, token: str = "") -> bytes:
    """A WAV file, said by the server's voice. ``token``: a key."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    body = json.dumps({"text": text, "keep_alive": 0})
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json", **authorization(token)}
        connection.request("POST", "/v1/tts/synthesize", body, headers)
        return connection.getresponse().read()


def spoken(server: ServerProcess, text: str, token: str = "") -> Any:
    """float32 samples at 16 kHz, said by the server's voice. ``token``: a key."""
    import numpy

    with wave.open(io.BytesIO(recorded(server, text, token))) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
        count = len(samples) * RATE // file.getframerate()
    # Resampled exactly, by cutting its spectrum.
    return numpy.fft.irfft(numpy.fft.rfft(samples)[: count // 2 + 1], count) * (count / len(samples))


async def together(server: ServerProcess, voices: Sequence[Any], sessions: int) -> Run:
    process = psutil.Process(server.pid)
    before = process.cpu_times()
    chosen = [voices[number % len(voices)] for number in range(sessions)]
    heard = await asyncio.gather(*(talk(server.url, one) for one in chosen))
    after = process.cpu_times()
    seconds = sum(len(one) for one in chosen) / RATE
    return Run(heard, (after.user + after.system - before.user - before.system) / seconds)


def measure(server: ServerProcess, runs: int, sizes: Sequence[int] = SESSIONS) -> dict[int, list[Run]]:
    """Alternating, so that a slow minute of the machine meets all sizes; the first run only warms up."""
    voices = [spoken(server, text) for text in SENTENCES]
    asyncio.run(together(server, voices, 1))
    results: dict[int, list[Run]] = {size: [] for size in sizes}
    for turn in range(runs):
        for size in sizes:
            said = voices[turn % len(voices) :] + voices[: turn % len(voices)]
            results[size].append(asyncio.run(together(server, said, size)))
    return results


def rows(results: Mapping[int, Sequence[Run]]) -> list[list[str]]:
    made = []
    for size, runs in results.items():
        heard = [one for run in runs for one in run.heard]
        finals, firsts = [one.final for one in heard], [one.first for one in heard]
        cost = statistics.median(run.cost for run in runs)
        figures = (statistics.median(finals), max(finals), statistics.median(firsts), cost)
        made.append([str(size), *(f"{figure:.2f}" for figure in figures)])
    return made


def draw(results: Mapping[int, Sequence[Run]]) -> None:
    finals = {f"{size} at once": [one.final for run in runs for one in run.heard] for size, runs in results.items()}
    report.draw_boxes("live", finals, "seconds from the end of speech to its final text")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    models = device.Models()
    with device.serving_models({"asr": models.asr, "tts": models.tts}) as server:
        results = measure(server, runs)
    header = ["sessions at once", "final text, median s", "worst", "first words, median s", "processor s a second"]
    body = report.table(header, rows(results))
    draw(results)
    text = (
        "Sentences of the starter voice, streamed in real time to the starter model: from the end of speech to its "
        f"final text, {runs} runs. An utterance ends when nothing was said for 0.8 s, which is part of it; first words "
        f"are counted from the start of speech.\n\n{body}\n\n![live transcription](live.png)"
    )
    print(report.write("live", "Live transcription", text))
    print(body)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
