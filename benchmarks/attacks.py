"""Clients that mean harm, each of a kind that once hurt others: what they send, and how the server answered.

    python -m benchmarks.attacks PORT SECONDS [TOKEN]

One round of each kind after the other's, all kinds beside each other, on loopback and bounded in time. Prints how often
each kind got which answer, as JSON. "cut" means that the server closed the connection, "left" that the attacker did.
``TOKEN``: the key of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import random
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.streams import head_of

PAUSE = 1.0
"""Seconds between two rounds of a kind."""
PATIENCE = 30.0
SCHEMAS: tuple[Any, ...] = (
    {"$ref": {}},
    {"type": "string", "minLength": 1e308},
    {"oneOf": [{"type": "object", "required": None}]},
    {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(600)}, "$ref": "#/$defs/d0"},
    {"type": "string", "pattern": "(" * 2000 + "a" + ")" * 2000},
    {"type": "string", "pattern": "((((a{1,99}){1,99}){1,99}){1,99})"},
    {"const": "\U00050000"},
    {"enum": []},
    {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
)
CHAT = "/v1/chat/completions"
TALK = [{"role": "user", "content": "Say something."}]


@dataclass
class Attackers:
    port: int
    until: float
    token: str = ""
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(7))

    async def run(self) -> Mapping[str, Mapping[str, int]]:
        kinds: dict[str, Callable[[], Awaitable[str]]] = {
            "bad schema": self.bad_schema,
            "grammar without a way": self.no_way,
            "hostile numbers": self.numbers,
            "speech that nobody reads": self.slow_reader,
            "asks and goes": self.goes,
            "huge prompt": self.huge_prompt,
            "JSON of small pieces": self.small_pieces,
            "stalled upload": self.stalled_upload,
            "silent connections": self.silent,
            "smuggled request": self.smuggled,
            "foreign page": self.foreign,
            "picture bomb": self.picture,
            "WebSocket flood": self.socket_flood,
        }
        await asyncio.gather(*(self.rounds(name, kind) for name, kind in kinds.items()))
        return {name: dict(count) for name, count in self.answers.items()}

    async def rounds(self, name: str, kind: Callable[[], Awaitable[str]]) -> None:
        count = self.answers[name] = Counter()
        while time.monotonic() < self.until:
            try:
                async with asyncio.timeout(PATIENCE):
                    count[await kind()] += 1
            except TimeoutError:
                count["no answer"] += 1
            except OSError:
                count["cut"] += 1
            await asyncio.sleep(PAUSE)

    # The kinds

    async def bad_schema(self) -> str:
        schema = self.random.choice(SCHEMAS)
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        return await self.post(CHAT, {"messages": TALK, "response_format": form, "max_tokens": 8})

    async def no_way(self) -> str:
        body = {"messages": TALK, "temperature": 1e-40, "response_format": {"type": "json_object"}, "max_tokens": 8}
        return await self.post(CHAT, body)

    async def numbers(self) -> str:
        number = self.random.choice(["1e-320", "1e999", "nan", "-0.0", "1" * 5000])
        if self.random.random() < 0.5:
            return await self.post(
                CHAT, b'{"messages": [{"role": "user", "content": "x"}], "seed": %b}' % number.encode()
            )
        return await self.form("/v1/audio/transcriptions", {"model": "asr", "temperature": number}, wav(0.5))

    async def slow_reader(self) -> str:
        """Keeps its place at the voice and reads nothing."""
        async with self.connected() as (_, writer):
            writer.write(self.request("/v1/audio/speech", {"input": "All of this is for nobody. " * 500}))
            await writer.drain()
            await asyncio.sleep(15)
        return "left"

    async def goes(self) -> str:
        for _ in range(20):
            async with self.connected() as (_, writer):
                writer.write(self.request(CHAT, {"messages": [{"role": "user", "content": "word " * 1000}]}))
                await writer.drain()
        return "left"

    async def huge_prompt(self) -> str:
        return await self.post(CHAT, {"messages": [{"role": "user", "content": "word " * 1_200_000}]})

    async def small_pieces(self) -> str:
        body = b'{"messages": [' + b"[]," * 5_000_000 + b"[]]}"
        return await self.post(CHAT, body)

    async def stalled_upload(self) -> str:
        head = self.head("POST /v1/transcribe/file") + b"Content-Length: 30000000\r\n"
        async with self.connected() as (reader, writer):
            writer.write(head + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\nContent-Disposition: ")
            writer.write(b'form-data; name="audio"; filename="a"\r\n\r\n' + bytes(1 << 20))
            return await status(reader)

    async def silent(self) -> str:
        """Connections that say nothing, and some that say half a head."""
        async with contextlib.AsyncExitStack() as stack:
            for number in range(200):
                _, writer = await stack.enter_async_context(self.connected())
                if number % 2:
                    writer.write(b"POST /v1/chat HTTP/1.1\r\nHost: loc")
            await asyncio.sleep(12)
        return "left"

    async def smuggled(self) -> str:
        async with self.connected() as (reader, writer):
            both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(self.head("POST /v1/chat") + both + b"0\r\n\r\n" + self.head("GET /v1/models") + b"\r\n")
            return await status(reader)

    async def foreign(self) -> str:
        headers = b"Origin: http://evil.example\r\n"
        return await self.post("/v1/chat", b'{"prompt": "x"}', headers, "text/plain")

    async def picture(self) -> str:
        return await self.form(
            "/v1/vision/analyze", {}, self.random.choice([png_bomb(), jpeg_scans(), b"GIF89a" * 99]), "image"
        )

    async def socket_flood(self) -> str:
        """Sound without end, and pings whose pongs are never read."""
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        head = self.head("GET /v1/transcribe/live") + b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
        ping = b"\x89\xfd" + bytes(4) + bytes(125)
        sound = b"\x82\xfe" + struct.pack(">H", 64_000) + bytes(4) + bytes(64_000)
        async with self.connected() as (_, writer):
            writer.write(head + f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
            for _ in range(200):
                writer.write(sound + ping * 100)
                async with asyncio.timeout(10):
                    await writer.drain()
        return "left"

    # How they ask

    @contextlib.asynccontextmanager
    async def connected(self) -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def post(self, path: str, body: Any, headers: bytes = b"", kind: str = "application/json") -> str:
        async with self.connected() as (reader, writer):
            writer.write(self.request(path, body, headers, kind))
            return await status(reader)

    def head(self, line: str) -> bytes:
        """The first lines of a request, such as "POST /v1/chat"."""
        return f"{line} HTTP/1.1\r\nHost: localhost\r\n{head_of(self.token)}".encode()

    def request(self, path: str, body: Any, headers: bytes = b"", kind: str = "application/json") -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        about = f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
        return self.head(f"POST {path}") + about.encode() + headers + b"\r\n" + data

    async def form(self, path: str, fields: Mapping[str, str], file: bytes, name: str = "file") -> str:
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()
        ]
        head = f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="f"\r\n\r\n'
        body = "".join(parts).encode() + head.encode() + file + b"\r\n--x--\r\n"
        return await self.post(path, body, kind="multipart/form-data; boundary=x")


async def status(reader: asyncio.StreamReader) -> str:
    """The answer's status, once all of it was read or the server closed the connection."""
    line = await reader.readline()
    return line.split()[1].decode() if line else "cut"


def wav(seconds: float) -> bytes:
    data = bytes(int(seconds * 16_000) * 2)
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(data),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        16_000,
        32_000,
        2,
        16,
        b"data",
        len(data),
    )
    return head + data


@functools.cache
def png_bomb() -> bytes:
    """1×1 in its header, and a hundred megabytes behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    inflated = zlib.compress(bytes(100 << 20), 9)
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", inflated) + chunk(b"IEND", b"")


@functools.cache
def jpeg_scans() -> bytes:
    """A progressive picture of 4,000 × 4,000 with 20,000 empty scans."""
    frame = b"\xff\xc2\x00\x0b\x08\x0f\xa0\x0f\xa0\x01\x01\x11\x00"
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00\x00"
    return b"\xff\xd8" + frame + scan * 20_000 + b"\xff\xd9"


def main() -> int:
    os.nice(19)  # attackers come from elsewhere: what they cost themselves should cost the guests nothing
    port, seconds, token = int(sys.argv[1]), float(sys.argv[2]), "".join(sys.argv[3:])
    attackers = Attackers(port, time.monotonic() + seconds, token)
    print(json.dumps(asyncio.run(attackers.run())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
