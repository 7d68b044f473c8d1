"""Entries of child processes (``edgeserve.processes``), as tests want them."""

from __future__ import annotations

import json
import locale
import os
import random
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any


def echo(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Send the arguments, then wait for a byte or the end of the socket."""
    sock.sendall(json.dumps(arguments).encode())
    sock.recv(1)


def fail(sock: socket.socket, arguments: dict[str, Any]) -> None:
    raise ValueError("this entry fails")


def leave(sock: socket.socket, arguments: dict[str, Any]) -> None:
    sys.exit(arguments["code"])


def die(sock: socket.socket, arguments: dict[str, Any]) -> None:
    os.kill(os.getpid(), arguments["signal"])


def wait(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Send a byte, then wait for signals for ever. SIGTERM ends the entry only if it is ``polite``."""
    if arguments.get("polite"):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sock.sendall(b"x")
    while True:
        signal.pause()


def spin(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Send a byte, then compute for ever, with no eye on the socket."""
    sock.sendall(b"x")
    while time.monotonic():
        pass


def leave_thread(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Return while a thread still waits, and leave text in the buffer of stdout."""
    threading.Thread(target=threading.Event().wait).start()
    sys.stdout.write("written last")


def report(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Send facts about this process as JSON."""
    sock.sendall(json.dumps(facts()).encode())


def facts() -> dict[str, Any]:
    folder = Path("/proc/self/fd")
    return {
        "descriptors": {int(one.name): os.readlink(one) for one in folder.iterdir() if one.is_symlink()},
        "ignored": sorted(one for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN),
        "handled": sorted(one for one in signal.valid_signals() if callable(_handler(one))),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "locale": {name: locale.setlocale(getattr(locale, name)) for name in ("LC_CTYPE", "LC_NUMERIC", "LC_TIME")},
        "encodings": [sys.getfilesystemencoding(), sys.stdout.encoding, sys.stderr.encoding],
        "path": sys.path,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "modules": sorted(sys.modules),
        "threads": len(os.listdir("/proc/self/task")),
        "random": [random.random(), _numpy_random()],
        "oom_score": int(Path("/proc/self/oom_score_adj").read_text()),
        "name": Path("/proc/self/comm").read_text().strip(),
        "command": Path("/proc/self/cmdline").read_text().strip("\0 "),
    }


def _handler(number: int) -> Any:
    found = signal.getsignal(number)
    return None if isinstance(found, signal.Handlers) else found


def _numpy_random() -> float | None:
    numpy_random = sys.modules.get("numpy.random")
    return numpy_random.random() if numpy_random else None
