"""A client of plain sockets: it sends what no HTTP library would, or nothing, and reads when it likes."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

from support.gates import PATIENCE_SECONDS
from support.server import Running, until

from edgeserve.connections import Patience

SHORT = Patience(head=0.4, write=0.4, linger=0.4)
"""Seconds of a server of little patience."""
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHAT = b"POST /v1/chat HTTP/1.1\r\nHost: 127.0.0.1\r\n"
"""The begin of a head, which a length and an empty line follow."""
HELLO = b'{"prompt": "hello"}'


@contextlib.contextmanager
def dialled(running: Running, *, timeout: float = PATIENCE_SECONDS, receive_bytes: int = 0) -> Iterator[socket.socket]:
    """A connection; ``receive_bytes`` is the client's own buffer, where it shall be small."""
    host, _, port = running.url.removeprefix("http://").rstrip("/").partition(":")
    with socket.socket() as link:
        if receive_bytes:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        link.settimeout(timeout)
        link.connect((host, int(port)))
        yield link


def read_all(link: socket.socket) -> bytes:
    """All that comes until the server closes; an end by reset is an end."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := link.recv(1 << 16):
            data += part
    return data


def ask(running: Running, request: bytes) -> bytes:
    with dialled(running) as link:
        link.sendall(request)
        return read_all(link)


def read_answer(link: socket.socket) -> tuple[int, Any]:
    """Status and JSON of one answer; what comes after it stays unread."""
    with link.makefile("rb", buffering=0) as file:
        status = int(file.readline().split()[1])
        length = 0
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        data = b""
        while len(data) < length:
            data += file.read(length - len(data))
    return status, json.loads(data)


def refusal(data: bytes) -> tuple[int, Any]:
    """Status and error of a whole answer."""
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


def alive(running: Running) -> bool:
    """Whether somebody else is served, at once."""
    return running.client.get("/v1/health", timeout=5).status_code == 200


TEXT = 1
"""Opcode of a WebSocket's text frame (RFC 6455, 5.2)."""


def flood(link: socket.socket, piece: bytes, over: Callable[[], bool]) -> None:
    """Send ``piece`` again and again, and read nothing, until ``over``. The server sets the pace."""
    pieces, sent = piece * (1 + (1 << 16) // len(piece)), 0
    link.setblocking(False)

    def send() -> bool:
        nonlocal sent
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sent += link.send(pieces[sent % len(piece) :])
        return over()

    until(send)


def handshake(*lines: str, path: str = "/v1/transcribe/live") -> bytes:
    """The head that opens a WebSocket."""
    key = base64.b64encode(bytes(16)).decode()
    start = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: Upgrade", "Upgrade: websocket"]
    return "\r\n".join([*start, f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *lines, "", ""]).encode()


def frame(opcode: int, data: bytes, *, last: bool = True) -> bytes:
    """A masked frame, as a client must send it. The mask is zero, so that it changes nothing."""
    size = len(data)
    length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
    return bytes([0x80 * last | opcode]) + length + bytes(4) + data
