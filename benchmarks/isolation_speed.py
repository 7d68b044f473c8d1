"""Requests that compare the process host with the thread host: chat, a long text, a picture, sound, and fakes."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import random
import statistics
import time
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import overhead
from benchmarks.ask import TIMEOUT, Client
from benchmarks.isolation_pairs import Figure, Figures
from benchmarks.llm_scenes import body, together, words
from benchmarks.process import ServerProcess, processor_of_all
from benchmarks.scenario import close_all
from benchmarks.speech_texts import MEDIUM, SHORT
from benchmarks.streams import Stream

CLIENTS = (1, 4, 8)
SOUND_SECONDS = 60
TEXT_BYTES = 200_000
FIRSTS = 5
"""Requests of which the first token's median is one figure."""
FAKE_TOKENS = {1: 4000, 8: 1000}
PACED_TOKENS = {1: 200, 8: 100}
PACE = overhead.PACE

CHAT: Mapping[str, Figure] = {
    **{f"rate {one}": Figure(f"tokens/s, clients: {one}", target=0.98, more=True, digits=1) for one in CLIENTS},
    **{f"spent {one}": Figure(f"ms of processor time a token, clients: {one}", digits=1) for one in CLIENTS},
    "first": Figure("first token, prompt known, ms", "difference", 3.0, digits=1),
    "cold": Figure("first token, engine cold, ms", "difference"),
    "text": Figure("200 kB of text until it is refused as too long, ms", "difference"),
}
FILES: Mapping[str, Figure] = {
    "see": Figure("a picture and an answer of 8 tokens, ms"),
    "transcribe": Figure("a minute of sound transcribed, ms"),
    "speak": Figure("a paragraph spoken, ms"),
    "speak first": Figure("a paragraph spoken, first sound, ms", "difference"),
}
FAKES: Mapping[str, Figure] = {
    **{f"fast {one}": Figure(f"tokens/s, streams: {one}") for one in FAKE_TOKENS},
    **{f"cost {one}": Figure(f"µs of processor time a token, streams: {one}", "difference") for one in FAKE_TOKENS},
    **{
        f"paced {one}": Figure(f"µs of processor time a token, paced, streams: {one}", "difference")
        for one in PACED_TOKENS
    },
    "fake first": Figure("first token, ms", "difference", 3.0, digits=2),
    "fake text": Figure("first token of 200 kB of text, ms", "difference", digits=1),
}


@dataclass(frozen=True, slots=True)
class Chat:
    """``servers`` by side. ``tokens`` of each answer; ``endings``: tokens that would end an answer early."""

    servers: Mapping[str, ServerProcess]
    tokens: int
    endings: tuple[int, ...]

    def rate(self, clients: int, side: str, turn: int) -> Figures:
        """Streams at once, from the first request to the last token; the processor time is of server and worker."""
        dice = random.Random(f"rate {clients} {turn}")
        asks = [Stream(self._port(side), self._body(words(dice, 12), self.tokens, dice)) for _ in range(clients)]
        before = processor_of_all(self.servers[side].pid)
        answers = asyncio.run(together(asks))
        spent = processor_of_all(self.servers[side].pid) - before
        seconds = max(one.times[-1] for one in answers) - min(one.sent for one in answers)
        count = clients * self.tokens
        return {f"rate {clients}": count / seconds, f"spent {clients}": 1000 * spent / count}

    def first(self, side: str, turn: int) -> Figures:
        """The same prompt again and again, so that the engine computes one token."""
        known = self._body("How are you today?", 2, random.Random(f"first {turn}"))
        answers = [asyncio.run(Stream(self._port(side), known).run()) for _ in range(FIRSTS + 1)]
        return {"first": 1000 * statistics.median(one.first for one in answers[1:])}

    def cold(self, side: str, turn: int) -> Figures:
        close_all(self.servers[side], ("llm",))
        asked = self._body("How are you today?", 2, random.Random(f"cold {turn}"))
        return {"cold": 1000 * asyncio.run(Stream(self._port(side), asked).run()).first}

    def text(self, side: str, turn: int) -> Figures:
        """Raises RuntimeError when the server takes the text, or refuses it for another reason."""
        said = {"messages": [{"role": "user", "content": long_text()}]}
        connection = http.client.HTTPConnection("127.0.0.1", self._port(side), timeout=TIMEOUT)
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(said), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        told = answer.read()
        took = time.perf_counter() - began
        connection.close()
        if answer.status != 400 or b"context" not in told:
            raise RuntimeError(f"{TEXT_BYTES} bytes of text were answered {answer.status}: {told[:300]!r}")
        return {"text": 1000 * took}

    def _port(self, side: str) -> int:
        return self.servers[side].port

    def _body(self, text: str, tokens: int, dice: random.Random) -> dict[str, Any]:
        return body(text, tokens, dice, self.endings)


@dataclass(frozen=True, slots=True)
class Files:
    """Pictures, recordings and speech. ``sound``: a WAV file."""

    servers: Mapping[str, ServerProcess]
    picture: bytes
    sound: bytes

    def see(self, side: str, turn: int) -> Figures:
        question = f"{turn}. What is the color?"
        return {"see": 1000 * Client(self.servers[side].port).see(self.picture, question, 8).whole}

    def transcribe(self, side: str, turn: int) -> Figures:
        return {"transcribe": 1000 * Client(self.servers[side].port).transcribe(self.sound).whole}

    def speak(self, side: str, turn: int) -> Figures:
        answer = Client(self.servers[side].port).speak(MEDIUM)
        return {"speak": 1000 * answer.whole, "speak first": 1000 * answer.first}


@dataclass(frozen=True, slots=True)
class Fakes:
    """Servers on an engine that takes no time; ``paced`` ones make a token of each stream every PACE seconds."""

    fast: Mapping[str, ServerProcess]
    paced: Mapping[str, ServerProcess]

    def rate(self, streams: int, side: str, turn: int) -> Figures:
        rate, cost = _carried(self.fast[side], streams, FAKE_TOKENS[streams])
        return {f"fast {streams}": rate, f"cost {streams}": cost}

    def cost(self, streams: int, side: str, turn: int) -> Figures:
        return {f"paced {streams}": _carried(self.paced[side], streams, PACED_TOKENS[streams])[1]}

    def first(self, side: str, turn: int) -> Figures:
        """Many, since each takes a few milliseconds."""
        took = [_first(self.fast[side], "again") for _ in range(8 * FIRSTS)]
        return {"fake first": 1000 * statistics.median(took)}

    def text(self, side: str, turn: int) -> Figures:
        took = [_first(self.fast[side], long_text()) for _ in range(FIRSTS)]
        return {"fake text": 1000 * statistics.median(took)}


def _carried(server: ServerProcess, streams: int, tokens: int) -> tuple[float, float]:
    """Tokens a second, and microseconds of processor time of server and worker for one."""
    before = processor_of_all(server.pid)
    seconds, _ = asyncio.run(overhead.load(server.port, streams, tokens))
    count = streams * tokens
    return count / seconds, 1e6 * (processor_of_all(server.pid) - before) / count


def _first(server: ServerProcess, text: str) -> float:
    said = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    return asyncio.run(Stream(server.port, said).run()).first


def long_text() -> str:
    """Words of TEXT_BYTES, the same each time."""
    return words(random.Random("long"), TEXT_BYTES // 5)[:TEXT_BYTES].ljust(TEXT_BYTES, ".")


def minute_of_sound(server: ServerProcess) -> bytes:
    """A WAV file of SOUND_SECONDS, said by the server's own voice. Raises RuntimeError when its speech is too short."""
    said = Client(server.port).speak(f"{MEDIUM} {SHORT} {MEDIUM}").body
    with wave.open(io.BytesIO(said)) as file:
        rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
        frames = file.readframes(SOUND_SECONDS * rate)
    if len(frames) < SOUND_SECONDS * rate * width * channels:
        raise RuntimeError(f"the voice spoke {len(frames) / rate / width / channels:.0f} s instead of {SOUND_SECONDS}")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(frames)
    return out.getvalue()
