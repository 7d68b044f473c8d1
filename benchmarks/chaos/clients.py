"""Clients, each of its own kind, who ask again and again: in a hurry, slowly, or not to the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from benchmarks.chaos import asks, live
from benchmarks.chaos.asks import Asks
from benchmarks.chaos.replies import BROKEN, CUT, FAILED, HUNG, LEFT, REFUSED, RIGHT, WRONG, Reply, told_in
from benchmarks.load import Ask, short

KINDS = (
    *("native chat", "native stream", "chat", "chat stream", "completions", "embeddings", "rerank"),
    *("vision", "vision stream", "transcription", "long sound", "speech wav", "speech mp3", "speech pcm"),
    *("live HTTP", "live WebSocket", "bad"),
)
UNASKED = {"live HTTP", "live WebSocket", "bad"}
"""Kinds whose requests are not among ``Crowd.asks``."""
STREAMED = {"native stream", "chat stream", "completions", "speech mp3", "speech pcm"}
"""Kinds whose client reads slowly at times."""
VANISHING, SLOW = 0.12, 0.12
"""Shares of the requests that are left before their end, and that are read slowly."""
SIPS, SIP_BYTES, SIP_SECONDS, BUFFER = 8, 16 << 10, 0.25, 64 << 10
MOST_PATIENCE = 2.0
"""Longest wait in seconds after a refusal, whatever its Retry-After says."""


@dataclass(slots=True)
class Crowd:
    """``limit``: seconds within which every request must end. ``clock``: seconds of the run. ``pause``: longest pause
    of a client between two requests. ``bar``: the right answers, by request."""

    url: str
    asks: Asks
    live: live.Sound
    dice: random.Random
    clock: Callable[[], float]
    limit: float
    pause: float = 0.3
    replies: list[Reply] = field(default_factory=list)
    bar: dict[Ask, Any] = field(default_factory=dict)

    async def learn(self) -> None:
        """Ask everything alone: these are the right answers. A second time, each must be as the first time. Raises
        RuntimeError."""
        async with self._client() as client, asyncio.timeout(len(self.asks) * self.limit):
            for one in [one for some in self.asks.values() for one in some]:
                answer = await client.post(one.path, json=one.json, files=one.files)
                if answer.status_code != 200:
                    raise RuntimeError(f"{one.name!r} alone answered {answer.status_code}: {answer.text[:500]}")
                got = one.read(answer.content)
                if got != self.bar.setdefault(one, got):
                    raise RuntimeError(f"{one.name!r} alone: {short(got)} instead of {short(self.bar[one])}")

    async def stay(self, more: Callable[[], bool]) -> None:
        """All of them, as long as there is ``more``; requests under way then are awaited."""
        await asyncio.gather(*(self._one(kind, random.Random(self.dice.random()), more) for kind in self.kinds()))

    def kinds(self) -> list[str]:
        """The kinds of clients that have something to ask."""
        return [kind for kind in KINDS if kind in UNASKED or kind in self.asks]

    async def _one(self, kind: str, dice: random.Random, more: Callable[[], bool]) -> None:
        async with self._client() as brisk, self._client(slow=True) as slow:
            while more():
                began = self.clock()
                reply, wait = await self._turn(kind, began, brisk, slow, dice)
                self.replies.append(reply)
                await asyncio.sleep(wait + dice.uniform(0, self.pause))

    async def _turn(
        self, kind: str, began: float, brisk: httpx.AsyncClient, slow: httpx.AsyncClient, dice: random.Random
    ) -> tuple[Reply, float]:
        """One request, and the seconds to wait before the next."""
        told: dict[str, Any]
        wait, job = 0.0, "asr"
        try:
            async with asyncio.timeout(self.limit):
                if kind.startswith("live"):
                    told = await live.session(kind, self.url, self.live, dice, brisk)
                elif kind == "bad":
                    one = asks.bad(dice)
                    job = one.job
                    told, wait = await self._bad(brisk, one)
                else:
                    one = dice.choice(self.asks[kind])
                    job = one.job
                    told, wait = await self._good(kind, brisk, slow, one, dice)
        except TimeoutError:
            told = {"status": BROKEN, "verdict": HUNG, "told": f"no end after {self.limit:g} s"}
        return Reply(kind, job, began, self.clock(), **told), wait

    async def _good(
        self, kind: str, brisk: httpx.AsyncClient, slow: httpx.AsyncClient, one: Ask, dice: random.Random
    ) -> tuple[dict[str, Any], float]:
        way = dice.random()
        if way < VANISHING:
            patience = dice.uniform(0, 0.05) if dice.random() < 0.5 else None
            return await self._leave(brisk, one, patience), 0.0
        sips = SIPS if way < VANISHING + SLOW and kind in STREAMED else 0
        answer = await _fetch(slow if sips else brisk, one, sips)
        return self._judged(one, answer), answer.wait

    async def _leave(self, client: httpx.AsyncClient, one: Ask, patience: float | None) -> dict[str, Any]:
        """Go after ``patience`` seconds, or at the first byte."""
        status = BROKEN
        with contextlib.suppress(TimeoutError, httpx.HTTPError):
            async with asyncio.timeout(patience), _posting(client, one) as answer:
                status = answer.status_code
                async for _ in answer.aiter_bytes():
                    if patience is None:
                        break
        return {"status": status, "verdict": LEFT}

    async def _bad(self, client: httpx.AsyncClient, one: Ask) -> tuple[dict[str, Any], float]:
        answer = await _fetch(client, one, 0)
        told = self._judged(one, answer)
        if told["verdict"] == WRONG and told.get("code"):
            told["verdict"] = REFUSED
        elif told["verdict"] == RIGHT and one.name != "bad schema":  # some have a sense, after all
            told |= {"verdict": WRONG, "told": f"{one.name} was answered: {answer.body[:200]!r}"}
        return told, answer.wait

    def _judged(self, one: Ask, answer: Fetched) -> dict[str, Any]:
        """Fields of the reply."""
        told = told_in(answer.body) if answer.status != 200 or b'"error"' in answer.body else None
        if told is not None:
            refused = REFUSED if answer.status >= 500 or answer.status == 408 else WRONG
            verdict = FAILED if answer.status == 200 else refused
            return {"status": answer.status, "verdict": verdict, "code": told[0], "told": told[1]}
        if answer.cut:
            return {"status": answer.status, "verdict": FAILED, "code": CUT, "told": answer.cut}
        fault = self._fault(one, answer)
        return {"status": answer.status, "verdict": WRONG if fault else RIGHT, "told": fault}

    def _fault(self, one: Ask, answer: Fetched) -> str:
        if answer.status != 200:
            return f"an answer without a code: {answer.body[:300]!r}"
        try:
            got = one.read(answer.body)
        except (ValueError, KeyError, IndexError) as error:
            return f"not complete ({error}): {answer.body[-300:]!r}"
        return "" if got == self.bar.get(one, got) else f"{short(got)} instead of {short(self.bar[one])}"

    def _client(self, slow: bool = False) -> httpx.AsyncClient:
        """A connection for each request: the server may close one that rests."""
        options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)] if slow else None
        limits = httpx.Limits(max_keepalive_connections=0)
        transport = httpx.AsyncHTTPTransport(limits=limits, socket_options=options)
        return httpx.AsyncClient(base_url=self.url, timeout=None, transport=transport)  # ``limit`` bounds all


@dataclass(frozen=True, slots=True)
class Fetched:
    """``cut``: how the connection ended before the answer did. ``wait``: seconds of Retry-After, bounded."""

    status: int
    body: bytes
    cut: str
    wait: float
    headers: Mapping[str, str]


async def _fetch(client: httpx.AsyncClient, one: Ask, sips: int) -> Fetched:
    """The whole answer; its first ``sips`` reads are short and slow."""
    status, body, cut, headers = BROKEN, bytearray(), "", httpx.Headers()
    try:
        async with _posting(client, one) as answer:
            status, headers = answer.status_code, answer.headers
            async for part in answer.aiter_raw(SIP_BYTES if sips else None):
                body += part
                if sips:
                    sips -= 1
                    await asyncio.sleep(SIP_SECONDS)
    except httpx.HTTPError as error:
        cut = f"{type(error).__name__}: {error}"
    wait = min(MOST_PATIENCE, float(headers.get("Retry-After", 0))) if status != 200 else 0.0
    return Fetched(status, bytes(body), cut, wait, headers)


@contextlib.asynccontextmanager
async def _posting(client: httpx.AsyncClient, one: Ask) -> AsyncIterator[httpx.Response]:
    async with client.stream("POST", one.path, json=one.json, files=one.files) as answer:
        yield answer
