"""A mixed load over HTTP: requests to every engine, each answer compared with what the same request gets alone."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from benchmarks.alike import Speech

REFUSALS = (503, 507)
BROKEN = 0
"""Stands for a status where none came, or the answer was cut."""
GREEDY = {"temperature": 0, "repeat_penalty": 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One request. ``read`` gives the part of a body that must be the same each time.

    ``read`` raises ValueError, KeyError or IndexError when the body is not complete."""

    job: str
    name: str
    path: str
    read: Callable[[bytes], Any]
    json: Mapping[str, Any] | None = field(default=None, repr=False)
    files: Mapping[str, Any] | None = field(default=None, repr=False)


def chat(text: str, tokens: int, *, stream: bool = False) -> Ask:
    return _completion("llm", text, [{"type": "text", "text": text}], tokens, stream)


def go_on(text: str, tokens: int, *, stream: bool = False) -> Ask:
    """The text over and over, broken off after three words, to be continued.

    The continuation is beyond doubt: no other word comes close. Answers made together are rounded otherwise than one
    alone, so that close calls between two words may go the other way.
    """
    prompt = text * 4 + " ".join(text.split()[:3])
    body = {"model": "llm", "prompt": prompt, "max_tokens": tokens, "stream": stream, **GREEDY}
    return Ask("llm", f"{text} ({'stream' if stream else 'whole'})", "/v1/completions", _written(stream), json=body)


def look(name: str, png: bytes, tokens: int, *, stream: bool = False) -> Ask:
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Describe this image."}]
    return _completion("vision", name, parts, tokens, stream)


def _completion(job: str, name: str, parts: Sequence[Any], tokens: int, stream: bool) -> Ask:
    messages = [{"role": "user", "content": parts}]
    body = {"messages": messages, "max_tokens": tokens, "stream": stream, **GREEDY}
    return Ask(job, f"{name} ({'stream' if stream else 'whole'})", "/v1/chat/completions", _said(stream), json=body)


def transcribe(name: str, wav: bytes) -> Ask:
    return Ask("asr", name, "/v1/transcribe/file", json.loads, files={"audio": (f"{name}.wav", wav)})


def speak(text: str, *, stream: bool = False) -> Ask:
    body = {"input": text, "response_format": "pcm", "stream_format": "sse" if stream else "audio"}
    read = read_speech if stream else Speech
    return Ask("tts", f"{text} ({'events' if stream else 'samples'})", "/v1/audio/speech", read, json=body)


def _written(stream: bool) -> Callable[[bytes], Any]:
    def read(body: bytes) -> tuple[str, str]:
        choices = _choices(body) if stream else json.loads(body)["choices"]
        return "".join(one["text"] for one in choices), choices[-1]["finish_reason"]

    return read


def _said(stream: bool) -> Callable[[bytes], Any]:
    return read_chunks if stream else read_completion


def read_completion(body: bytes) -> tuple[str, str]:
    (choice,) = json.loads(body)["choices"]
    return choice["message"]["content"], choice["finish_reason"]


def read_chunks(body: bytes) -> tuple[str, str]:
    choices = _choices(body)
    return "".join(one["delta"].get("content") or "" for one in choices), choices[-1]["finish_reason"]


def _choices(body: bytes) -> list[Any]:
    *events, done = _events(body)
    if done != "[DONE]":
        raise ValueError(f"the stream ended with {done!r}")
    chunks = [json.loads(event) for event in events]
    if failed := [chunk for chunk in chunks if "error" in chunk]:
        raise ValueError(f"the stream was cut: {failed[0]['error']['message']}")
    return [chunk["choices"][0] for chunk in chunks if chunk["choices"]]


def read_speech(body: bytes) -> Speech:
    events = [json.loads(event) for event in _events(body)]
    if events[-1]["type"] != "speech.audio.done":
        raise ValueError(f"the stream ended with {events[-1]}")
    return Speech(b"".join(base64.b64decode(one["audio"]) for one in events[:-1]))


def _events(body: bytes) -> list[str]:
    return [line.removeprefix("data: ") for line in body.decode().splitlines() if line]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one request. ``seconds`` to the last byte."""

    job: str
    status: int
    seconds: float


@dataclass(slots=True)
class Load:
    """Clients that ask at random. ``fickle`` of them hang up: half at their first byte, half after a few ms.

    ``patient`` clients wait after a refusal as long as it says, at most a second. ``wrong`` tells every answer that was
    neither right nor a refusal; ``answered`` is called after each request.
    """

    url: str
    asks: Sequence[Ask]
    dice: random.Random
    fickle: float = 0.0
    patient: bool = False
    answered: Callable[[], None] = lambda: None
    outcomes: list[Outcome] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: int = 0
    expected: dict[Ask, Any] = field(default_factory=dict)

    async def learn(self) -> None:
        """Ask everything once, one after the other: these are the right answers. Raises when one is refused."""
        async with self._client() as client:
            for one in self.asks:
                started = time.perf_counter()
                answer = await client.post(one.path, json=one.json, files=one.files)
                if answer.status_code != 200:
                    raise RuntimeError(f"{one.name!r} alone answered {answer.status_code}: {answer.text[:500]}")
                self.expected[one] = one.read(answer.content)
                self._note(one, answer.status_code, started, None)

    async def run(self, clients: int, more: Callable[[], bool]) -> None:
        """So many at once."""
        await asyncio.gather(*(self.client(more) for _ in range(clients)))

    async def client(self, more: Callable[[], bool]) -> None:
        """One client that asks as long as there is ``more``."""
        async with self._client() as client:
            while more():
                one, leaves = self.dice.choice(self.asks), self.dice.random() < self.fickle
                patience = self.dice.uniform(0, 0.03) if leaves and self.dice.random() < 0.5 else None
                try:
                    async with asyncio.timeout(patience):
                        wait = await self._ask(client, one, leaves and patience is None)
                except TimeoutError:
                    self.left += 1
                    wait = 0.0
                self.answered()
                if self.patient and wait:
                    await asyncio.sleep(min(1.0, wait))

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=120, trust_env=False)

    async def _ask(self, client: httpx.AsyncClient, one: Ask, leaves: bool) -> float:
        """Seconds to wait before the next, for a patient client."""
        started, body = time.perf_counter(), bytearray()
        try:
            async with client.stream("POST", one.path, json=one.json, files=one.files) as answer:
                async for part in answer.aiter_bytes():
                    body += part
                    if leaves:
                        self.left += 1
                        return 0.0
        except httpx.HTTPError as error:
            self._note(one, BROKEN, started, f"{type(error).__name__}: {error}")
            return 1.0
        self._note(one, answer.status_code, started, self._fault(one, answer, bytes(body)))
        return float(answer.headers.get("Retry-After", 1)) if answer.status_code != 200 else 0.0

    def _note(self, one: Ask, status: int, started: float, fault: str | None) -> None:
        self.outcomes.append(Outcome(one.job, status, time.perf_counter() - started))
        if fault:
            self.wrong.append(f"{one.job} {one.name!r}: {fault}")

    def _fault(self, one: Ask, answer: httpx.Response, body: bytes) -> str | None:
        """The fault of an answer; None when there is none."""
        if answer.status_code in REFUSALS:
            told = json.loads(body).get("error", {})
            whole = told.get("message") and told.get("code")
            return None if whole else f"a refusal that says nothing: {body[:500]!r}"
        if answer.status_code != 200:
            return f"answered {answer.status_code}: {body[:500]!r}"
        try:
            got = one.read(body)
        except (ValueError, KeyError, IndexError) as error:
            return f"not complete ({error}): {body[-500:]!r}"
        wanted = self.expected[one]
        return None if got == wanted else f"{short(got)} instead of {short(wanted)}"


def short(value: Any) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)[:500]
