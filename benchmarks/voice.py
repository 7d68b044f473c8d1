"""Spoken conversations: seconds from the end of speech to the first sound of the answer, and from speech to silence.

    python -m benchmarks.voice [--runs 5]

A real server on the starter models hears sentences that its own voice has said, over /v1/realtime, as from a
microphone. It answers by speech. One conversation at a time, then four at once. A gap is time in which a client that
plays the answer as it comes has nothing left to play. An interruption counts from the first loud sample of the user's
speech to the end of the answer's sound.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import device, report
from benchmarks.live import recorded
from benchmarks.process import ServerProcess

QUESTIONS = ("What is the capital of France?", "How many days are in a week?", "What do herons eat?")
STORY = "Tell me a long story about a little girl who lived near the forest."
SHORT = {"instructions": "You answer in one or two short sentences.", "max_output_tokens": 40}
LONG = {"instructions": "You tell long stories of many sentences.", "max_output_tokens": 300}
CONVERSATIONS = (1, 4)
RATE, STEP_SECONDS = 24_000, 0.04
WAV_HEAD = 44
LOUD = 300
PATIENCE = 120.0
TARGETS = {"first sound, median": 0.8, "first sound, p95": 1.5, "interruption": 0.2}
"""Seconds, on two cores."""


@dataclass(slots=True)
class Heard:
    """One answer: seconds from the end of speech to its first sound, and the gaps while it was played."""

    first: float
    gaps: float


@dataclass(slots=True)
class Results:
    """By number of conversations at once; interruptions of one."""

    answers: dict[int, list[Heard]] = field(default_factory=dict)
    interruptions: list[float] = field(default_factory=list)


class Caller:
    """A client with a microphone that never stops. Times are those of ``perf_counter``."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._speech = b""
        self.loud_from = self.loud_until = 0.0

    async def send(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def event(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self._socket.recv())

    async def until(self, kind: str) -> Any:
        while (event := await self.event())["type"] != kind:
            if event["type"] == "error":
                raise RuntimeError(event)
        return event

    def say(self, sound: bytes) -> None:
        """Speak from the next step on. ``sound``: int16, from its first loud sample to the last."""
        self._speech, self.loud_from = sound, 0.0

    async def microphone(self) -> None:
        size, due = 2 * int(RATE * STEP_SECONDS), time.perf_counter()
        while True:
            piece, self._speech = self._speech[:size], self._speech[size:]
            if piece and not self.loud_from:
                self.loud_from = due  # the step holds the sound of the time before it is sent
            due += STEP_SECONDS
            if piece and not self._speech:
                self.loud_until = due - (size - len(piece)) / 2 / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await self.send("input_audio_buffer.append", audio=base64.b64encode(piece.ljust(size, b"\0")).decode())

    async def answered(self) -> Heard:
        """The answer to what is said."""
        first, played_until, gaps = 0.0, 0.0, 0.0
        while True:
            event = await self.event()
            now = time.perf_counter()
            if event["type"] == "response.output_audio.delta":
                first = first or now
                if played_until and now > played_until:
                    gaps += now - played_until
                played_until = max(now, played_until) + len(base64.b64decode(event["delta"])) / 2 / RATE
            elif event["type"] == "response.done":
                if not first:
                    raise RuntimeError(f"an answer without sound: {event}")
                return Heard(first - self.loud_until, gaps)
            elif event["type"] == "error":
                raise RuntimeError(event)


@contextlib.asynccontextmanager
async def calling(url: str, settings: Mapping[str, Any]) -> AsyncIterator[Caller]:
    from websockets.asyncio.client import connect

    async with connect(f"{url.replace('http', 'ws', 1)}/v1/realtime", max_size=None) as socket:
        caller = Caller(socket)
        await caller.send("session.update", session=dict(settings))
        await caller.until("session.updated")
        microphone = asyncio.create_task(caller.microphone())
        try:
            yield caller
        finally:
            microphone.cancel()


def loud(wav: bytes) -> bytes:
    """The samples of a WAV file from the first loud one to the last."""
    import numpy

    samples = numpy.frombuffer(wav[WAV_HEAD:], "<i2")
    found = numpy.flatnonzero(abs(samples.astype(int)) > LOUD)
    return bytes(samples[found[0] : found[-1] + 1].tobytes())


async def converse(url: str, sounds: Sequence[bytes]) -> list[Heard]:
    """One conversation: a question after the other, each after the answer to the one before."""
    heard = []
    async with calling(url, SHORT) as caller:
        for sound in sounds:
            caller.say(sound)
            heard.append(await caller.answered())
    return heard


async def together(url: str, sounds: Sequence[bytes], count: int) -> list[Heard]:
    turned = [[*sounds[at % len(sounds) :], *sounds[: at % len(sounds)]] for at in range(count)]
    return [one for all_of in await asyncio.gather(*(converse(url, one) for one in turned)) for one in all_of]


async def interrupt(url: str, story: bytes, word: bytes) -> float:
    """Seconds from the start of the user's speech to the end of the answer's sound."""
    async with calling(url, LONG) as caller:
        caller.say(story)
        await caller.until("response.output_audio.delta")
        caller.say(word)
        await caller.until("input_audio_buffer.speech_started")
        return time.perf_counter() - caller.loud_from


def measure(server: ServerProcess, runs: int) -> Results:
    """The first conversation only warms up."""
    sounds = [loud(recorded(server, text)) for text in QUESTIONS]
    story = loud(recorded(server, STORY))
    asyncio.run(converse(server.url, sounds[:1]))
    results = Results({count: [] for count in CONVERSATIONS})
    for _ in range(runs):
        for count in CONVERSATIONS:
            results.answers[count] += asyncio.run(together(server.url, sounds, count))
        results.interruptions.append(asyncio.run(interrupt(server.url, story, sounds[0])))
    return results


def p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]


def rows(results: Results) -> list[list[str]]:
    made = []
    for count, answers in results.answers.items():
        firsts = [one.first for one in answers]
        gaps = [one.gaps for one in answers]
        figures = (statistics.median(firsts), p95(firsts), max(gaps))
        made.append([str(count), *(f"{figure:.2f}" for figure in figures), f"{sum(one > 0.02 for one in gaps)}"])
    return made


def draw(results: Results) -> None:
    drawn = {f"{count} at once": [one.first for one in found] for count, found in results.answers.items()}
    drawn["interruption"] = results.interruptions
    report.draw_boxes("voice", drawn, "seconds to the first sound of the answer, and to silence")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    models = device.Models()
    with device.serving_models({"llm": models.llm, "asr": models.asr, "tts": models.tts}) as server:
        results = measure(server, runs)
    header = ["conversations", "first sound, median s", "p95", "longest gap s", "answers with a gap"]
    body = report.table(header, rows(results))
    cut = f"{statistics.median(results.interruptions):.2f} s (median), {max(results.interruptions):.2f} s (worst)"
    targets = ", ".join(f"{name} {seconds:g} s" for name, seconds in TARGETS.items())
    text = (
        f"Questions of the starter voice over /v1/realtime, in real time, {runs} runs: from the end of speech to the "
        f"first sound of the answer. Silence ends a turn after 0.5 s, which is part of it.\n\n{body}\n\n"
        f"An interruption is noticed after {cut}. Targets on two cores: {targets}.\n\n![voice](voice.png)"
    )
    draw(results)
    print(report.write("voice", "Spoken conversations", text))
    print(body)
    print(cut)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
