"""A client of Wyoming on a plain socket."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.gates import PATIENCE_SECONDS
from support.server import Running, serving

from edgeserve.listening import listen
from edgeserve.residency.pool import Pool

FORM = {"rate": 16_000, "width": 2, "channels": 1}
"""The sound that Home Assistant sends."""


@dataclass
class Event:
    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


def written(kind: str, data: Mapping[str, Any] | None = None, payload: bytes = b"") -> bytes:
    """An event as the package ``wyoming`` writes it."""
    head: dict[str, Any] = {"type": kind, "version": "1.10.2"}
    body = json.dumps(data, ensure_ascii=False).encode() if data else b""
    if body:
        head["data_length"] = len(body)
    if payload:
        head["payload_length"] = len(payload)
    return json.dumps(head).encode() + b"\n" + body + payload


class Client:
    """One connection."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self._file = link.makefile("rb")

    def send(self, kind: str, data: Mapping[str, Any] | None = None, payload: bytes = b"") -> None:
        self.link.sendall(written(kind, data, payload))

    def read(self) -> Event | None:
        """The next event; None at the end of the connection, also by reset."""
        line = b""
        with contextlib.suppress(ConnectionResetError):
            line = self._file.readline()
        if not line:
            return None
        head = json.loads(line)
        data = {**head.get("data", {})}
        if length := head.get("data_length"):
            data |= json.loads(self._file.read(length))
        return Event(head["type"], data, self._file.read(head.get("payload_length", 0)))

    def until(self, kind: str) -> list[Event]:
        """Events up to the first one of this type."""
        events: list[Event] = []
        while not events or events[-1].type != kind:
            event = self.read()
            assert event is not None, f"the connection ended before {kind}, after {events}"
            events.append(event)
        return events

    def close(self) -> None:
        self._file.close()
        self.link.close()


class Wyoming:
    """A server with a port for Wyoming."""

    def __init__(self, running: Running, port: int) -> None:
        self.running, self.port = running, port

    @contextlib.contextmanager
    def dialled(self, *, timeout: float = PATIENCE_SECONDS, receive_bytes: int = 0) -> Iterator[Client]:
        """A connection; ``receive_bytes`` is the client's own buffer, where it shall be small."""
        link = socket.socket()
        if receive_bytes:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        link.settimeout(timeout)
        link.connect(("127.0.0.1", self.port))
        with contextlib.closing(Client(link)) as client:
            yield client

    def ask(self, kind: str, data: Mapping[str, Any] | None = None, *, until: str) -> list[Event]:
        """One event on a connection of its own, and the answers up to the type ``until``."""
        with self.dialled() as client:
            client.send(kind, data)
            return client.until(until)


@contextlib.contextmanager
def speaking_wyoming(pool: Pool, **server: Any) -> Iterator[Wyoming]:
    """As ``serving``, with a port for Wyoming."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with serving(pool, wyoming=listener, **server) as running:
            yield Wyoming(running, port)


def loud(seconds: float, *, rate: int = 16_000, channels: int = 1) -> bytes:
    """Sound of a square wave of 200 Hz, 16 bits."""
    count = int(seconds * rate)
    return b"".join(struct.pack("<h", 8000 if at * 400 // rate % 2 else -8000) * channels for at in range(count))
