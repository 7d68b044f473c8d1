"""Eight well-behaved clients of one server: three chat, two listen to speech, two transcribe, one talks live.

Each asks again some seconds after its answer is whole. A refusal with Retry-After is counted and tried again, as client
libraries do.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import live, streams

KINDS: Mapping[str, int] = {"chat": 3, "speech": 2, "transcription": 2, "live": 1}
PAUSES: Mapping[str, float] = {"chat": 6.0, "speech": 6.0, "transcription": 8.0, "live": 2.0}
"""Seconds between two questions of one guest."""
PARTS = {"first": "to the first part", "gap": "between two parts", "whole": "to the end"}
TEXT = "The morning was bright and cold. Nobody had yet been out. The heron stood beside the water and waited. "
PATIENCE = 120.0


@dataclass
class Seen:
    """Seconds by (kind, what was measured), answers and refusals by kind, and what went wrong in words."""

    times: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    errors: list[str] = field(default_factory=list)

    def note(self, kind: str, sent: float, times: Sequence[float]) -> None:
        """One answer, sent and its parts come at these moments."""
        self.answers[kind] += 1
        self.times[kind, "first"].append(times[0] - sent)
        self.times[kind, "gap"] += [later - earlier for earlier, later in itertools.pairwise(times)]
        self.times[kind, "whole"].append(times[-1] - sent)


@dataclass
class Guests:
    """``sound``: a WAV file to transcribe; ``voice``: float32 samples at 16 kHz to say live.

    ``tokens``: a key of each guest. Without, all of them and every other program of the machine are one client.
    """

    port: int
    sound: bytes
    voice: Any
    tokens: Sequence[str] = ()

    async def stay(self, seconds: float) -> Seen:
        """All of them for so long; answers under way then are read to their end."""
        seen, until = Seen(), time.perf_counter() + seconds
        asks = {"chat": self.chat, "speech": self.speech, "transcription": self.transcription, "live": self.live}
        kinds = [(kind, number) for kind, count in KINDS.items() for number in range(count)]
        tokens = self.tokens or [""] * len(kinds)
        guests = [
            self._again(kind, f"guest {number}", functools.partial(asks[kind], token), seen, until)
            for (kind, number), token in zip(kinds, tokens, strict=True)
        ]
        await asyncio.gather(*guests)
        return seen

    async def _again(self, kind: str, name: str, ask: Any, seen: Seen, until: float) -> None:
        for turn in itertools.count():
            if time.perf_counter() >= until:
                return
            try:
                async with asyncio.timeout(PATIENCE):
                    await ask(f"{name}, question {turn}", seen)
                await asyncio.sleep(PAUSES[kind])
            except Refused as refused:
                seen.refused[kind] += 1
                await asyncio.sleep(refused.seconds)
            except (OSError, RuntimeError, TimeoutError, EOFError) as error:
                seen.errors.append(f"{kind}: {type(error).__name__} {error}"[:300])

    async def chat(self, token: str, question: str, seen: Seen) -> None:
        body = {
            "messages": [{"role": "user", "content": f"{question}: tell me a story."}],
            "max_tokens": 64,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        sent, reads = await self._stream(token, "/v1/chat/completions", "application/json", json.dumps(body).encode())
        seen.note("chat", sent, streams.understood(sent, reads).times)

    async def speech(self, token: str, question: str, seen: Seen) -> None:
        body = {"input": f"{question}. {TEXT * 3}", "response_format": "pcm"}
        sent, reads = await self._stream(token, "/v1/audio/speech", "application/json", json.dumps(body).encode())
        whole(reads)
        seen.note("speech", sent, [at for at, _ in reads])

    async def transcription(self, token: str, question: str, seen: Seen) -> None:
        part = '--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
        head = part % ("model", "") + "asr\r\n" + part % ("stream", "") + "true\r\n" + part % ("file", '; filename="a"')
        body = head.encode() + self.sound + b"\r\n--x--\r\n"
        sent, reads = await self._stream(token, "/v1/audio/transcriptions", "multipart/form-data; boundary=x", body)
        if "transcript.text.done" not in whole(reads).decode():
            raise RuntimeError(f"the transcript is not whole: {reads[-1][1][-200:]!r}")
        seen.note("transcription", sent, [at for at, _ in reads])

    async def live(self, token: str, question: str, seen: Seen) -> None:
        heard = await live.talk(f"http://127.0.0.1:{self.port}", self.voice, token)
        seen.answers["live"] += 1
        seen.times["live", "first"].append(heard.first)
        seen.times["live", "whole"].append(heard.final)

    async def _stream(self, token: str, path: str, kind: str, body: bytes) -> tuple[float, list[tuple[float, bytes]]]:
        """When it was sent, and the reads with their times, the head in the first of them."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nConnection: close\r\n"
        sent, reads = time.perf_counter(), list[tuple[float, bytes]]()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{head}{streams.head_of(token)}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while part := await reader.read(streams.READ):
                reads.append((time.perf_counter(), part))
        finally:
            writer.close()
            await writer.wait_closed()
        refuse(b"".join(part for _, part in reads[:1]))
        return sent, reads


class Refused(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"come back in {seconds:g} s")
        self.seconds = seconds


def refuse(head: bytes) -> None:
    """Raises Refused for a 503 that says when to come back, RuntimeError for what else is no answer."""
    lines = head.partition(b"\r\n\r\n")[0].decode(errors="replace").lower().split("\r\n")
    if lines[0].startswith("http/1.1 200"):
        return
    waits = [line.partition(":")[2] for line in lines if line.startswith("retry-after:")]
    if lines[0].startswith("http/1.1 503") and waits:
        raise Refused(float(waits[0]))
    raise RuntimeError(head.decode(errors="replace")[:300] or "the connection was closed")


def whole(reads: Sequence[tuple[float, bytes]]) -> bytes:
    """All of a chunked answer. Raises RuntimeError where its last chunk is missing."""
    raw = b"".join(part for _, part in reads)
    if not raw.endswith(b"0\r\n\r\n"):
        raise RuntimeError("the answer was cut")
    return raw
