"""A site with pictures, some of which come slowly, without end, cut short, or from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

BYTES = b"GIF89a" + bytes(range(200))
CRUMBS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"
INTERIM = b"", b"HTTP/1.1 100 Continue\r\n\r\n"
"""The beginning of an answer, and the part that follows again and again."""


class Site:
    """Answers by path; notes the headers that came."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[dict[str, str]] = []
        self.names: list[str | None] = []
        self.redirects: dict[str, str] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.current_task())  # type: ignore[arg-type]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = head[0].split()[1]
        self.seen.append({"path": path} | dict(line.lower().split(": ", 1) for line in head[1:] if line))
        await self._write(path, writer)
        await writer.drain()

    async def _write(self, path: str, writer: asyncio.StreamWriter) -> None:
        if path in self.redirects:
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {self.redirects[path]}\r\n".encode())
            writer.write(b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
        elif path == "/drip":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        elif path == "/endless":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"400\r\n" + bytes(1024) + b"\r\n")
                await writer.drain()
        elif path in ("/crumbs", "/interim"):
            head, part = CRUMBS if path == "/crumbs" else INTERIM
            writer.write(head)
            while not writer.is_closing():
                writer.write(part * 1000)
                await writer.drain()
        elif path == "/missing":
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        elif path == "/noise":
            writer.write(b"\0\0\0\r\n\r\n")
        elif path == "/cut":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nGIF89a")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BYTES) + BYTES)


@contextlib.asynccontextmanager
async def site(tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    one = Site()
    if tls:
        tls.sni_callback = lambda connection, name, context: one.names.append(name)
    server = await asyncio.start_server(one.answer, "127.0.0.1", 0, ssl=tls)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        await asyncio.wait([*one.tasks, asyncio.create_task(server.wait_closed())], timeout=10)
