"""A lean client of streamed answers in OpenAI's shape.

On a small box the client takes the processor from the server. While a stream runs it only notes which bytes came when;
it parses them afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

READ = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """``times``: when each piece of text came, in seconds on the clock of ``time.perf_counter``, as ``sent`` is. Tokens
    as the server counted them: of the prompt, of these in a cache, of the answer."""

    sent: float
    times: Sequence[float]
    prompt: int
    cached: int
    said: int
    text: str = ""

    @property
    def first(self) -> float:
        """Seconds from the request, connecting included, to the first text."""
        return self.times[0] - self.sent

    @property
    def gaps(self) -> list[float]:
        """Seconds between two pieces of text."""
        return [later - earlier for earlier, later in itertools.pairwise(self.times)]


def authorization(token: str) -> dict[str, str]:
    """The header of a request with this key; none without a key."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def head_of(token: str) -> str:
    """The same as a line of a request's head."""
    return "".join(f"{name}: {value}\r\n" for name, value in authorization(token).items())


@dataclass(slots=True, eq=False)
class Stream:
    """One request on a connection of its own. ``flowing`` is set when ``enough`` reads brought something."""

    port: int
    body: Mapping[str, Any]
    path: str = "/v1/chat/completions"
    enough: int = 8
    flowing: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> Answer:
        """Raises RuntimeError when the answer is not 200 or was cut."""
        data = json.dumps({**self.body, "stream": True, "stream_options": {"include_usage": True}}).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        )
        sent, reads = time.perf_counter(), list[tuple[float, bytes]]()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            while part := await reader.read(READ):
                reads.append((time.perf_counter(), part))
                if len(reads) == self.enough:
                    self.flowing.set()
        finally:
            self.flowing.set()  # whoever waits need not wait for one that failed
            writer.close()
            await writer.wait_closed()
        return understood(sent, reads)


def understood(sent: float, reads: Sequence[tuple[float, bytes]]) -> Answer:
    """Parse the reads of one answer. Raises RuntimeError."""
    times, texts, usage, done = [], list[str](), None, False
    for at, text in _events(reads):
        done = text == "[DONE]"
        if done:
            break
        event = json.loads(text)
        if "error" in event:
            raise RuntimeError(f"the answer was cut: {event['error']}")
        if text := "".join(_text(choice) for choice in event["choices"]):
            times.append(at)
            texts.append(text)
        usage = event.get("usage") or usage
    if not done or usage is None or not times:
        raise RuntimeError(f"the answer is not whole: {reads[-1][1][-500:] if reads else b''!r}")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return Answer(sent, times, usage["prompt_tokens"], cached, usage["completion_tokens"], "".join(texts))


def _text(choice: Mapping[str, Any]) -> str:
    return choice.get("text") or (choice.get("delta") or {}).get("content") or ""


def _events(reads: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, str]]:
    """The text after ``data:`` of each event with the time at which its last byte came."""
    text = b""
    for at, piece in _pieces(reads):
        *whole, text = (text + piece).split(b"\n\n")
        for one in whole:
            yield at, one.decode().removeprefix("data:").strip()


def _pieces(reads: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The chunks of the body (RFC 9112, 7.1), each with the time at which its last byte came."""
    raw = b"".join(part for _, part in reads)
    head, _, _ = raw.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200") or b"chunked" not in head.lower():
        raise RuntimeError(f"not a stream: {raw[:1000]!r}")
    ends = list(itertools.accumulate(len(part) for _, part in reads))
    place, read = len(head) + 4, 0
    while place < len(raw):
        line, _, _ = raw[place : place + 32].partition(b"\r\n")
        start, size = place + len(line) + 2, int(line, 16)
        if not size:
            return
        while ends[read] < start + size:
            read += 1
        yield reads[read][0], raw[start : start + size]
        place = start + size + 2


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of them (0 to 1) do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
