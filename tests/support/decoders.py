"""Entries of short-lived children (``edgeserve.media``) that work, and that end in every way a decoder may end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

import psutil
from support.children import gone

from edgeserve.errors import InvalidRequest
from edgeserve.media import bounded
from edgeserve.processes.frames import Channel, Frame, Kind

HERE = __name__


def living() -> set[int]:
    """Pids of all processes below this one, except those that wait to be reaped."""
    return {one.pid for one in psutil.Process().children(recursive=True) if not gone(one.pid)}


def work(sock: socket.socket, arguments: dict[str, Any]) -> None:
    bounded.answer(sock, arguments, lambda channel, frame: WAYS[frame.head](channel, frame))


def early(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """End before the first frame is read."""


def _refuse(channel: Channel, frame: Frame) -> None:
    raise InvalidRequest("the file is damaged", param="file")


def _fill(channel: Channel, frame: Frame) -> None:
    parts = [bytearray(16 << 20) for _ in range(1 << 20)]
    raise AssertionError(f"{len(parts)} parts of 16 MB fit")


def _spin(channel: Channel, frame: Frame) -> None:
    while True:
        pass


def _wait(channel: Channel, frame: Frame) -> None:
    channel.receive()


def _end(number: int) -> Any:
    return lambda channel, frame: os.kill(os.getpid(), number)


def _let_go(channel: Channel, frame: Frame) -> None:
    """Close the socket and stay."""
    channel.close()
    signal.pause()


def _nonsense(channel: Channel, frame: Frame) -> None:
    os.write(channel.fileno(), b"\xff" * 64)
    signal.pause()


def _send(kind: Kind, head: object) -> Any:
    return lambda channel, frame: (channel.send(kind, 0, head), signal.pause())


WAYS = {
    "no result": _send(Kind.DONE, {}),
    "no head": _send(Kind.DONE, 7),
    "no error": _send(Kind.DONE, {"error": ["SystemExit", "text", None, None, ""]}),
    "another kind": _send(Kind.STATE, {"result": 1}),
    "too early": _send(Kind.EVENTS, None),
    "result": lambda channel, frame: [frame.head, len(frame.body), os.getpid()],
    "refuse": _refuse,
    "fill": _fill,
    "spin": _spin,
    "wait": _wait,
    "kill": _end(signal.SIGKILL),
    "crash": _end(signal.SIGSEGV),
    "abort": _end(signal.SIGABRT),
    "raise": lambda channel, frame: 1 // 0,
    "exit": lambda channel, frame: sys.exit(3),
    "let go": _let_go,
    "nonsense": _nonsense,
}
