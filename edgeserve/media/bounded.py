"""The child's side: bounds on itself before it reads a byte of its input, then the work, then how it ended."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

from edgeserve.errors import EdgeserveError
from edgeserve.processes import codec
from edgeserve.processes.frames import Channel, Frame, Kind

Work = Callable[[Channel, Frame], Any]
LACKING = "lacking"
"""Key in the head of the last frame: the work took more memory than the child may take."""
STATM = "/proc/self/statm"
XCPU_GAP = 1
"""Seconds between SIGXCPU, which tells of processor time, and SIGKILL, which could have another reason."""


def answer(sock: socket.socket, arguments: dict[str, Any], work: Work) -> None:
    """Do ``work`` on the first frame. The last frame holds its result, its error, or ``LACKING``.

    ``arguments``: the bounds in force from here on. Other errors than the product's end the child with a traceback.
    """
    channel = Channel(sock)
    limit(arguments["memory"], arguments["cpu"])
    frame = channel.receive()
    if frame is None:
        return
    head: dict[str, Any] = {LACKING: True}  # made now, since nothing may be left then
    with contextlib.suppress(ConnectionError):  # the server wants no more
        try:
            head = {"result": work(channel, frame)}
        except MemoryError:
            del frame  # the error's own frames are gone with it; the rest is enough for the last one
        except EdgeserveError as error:
            head = {"error": codec.write_error(error, "")}
        channel.send(Kind.DONE, 0, head)


def limit(memory: int, cpu: int | None) -> None:
    """Bound the addresses and the processor time of this process, and give it no core dump."""
    import resource

    page = resource.getpagesize()
    with contextlib.suppress(OSError), open(STATM, encoding="ascii") as file:  # macOS has no such file or bound
        used = int(file.read().split()[0]) * page
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    if cpu is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + XCPU_GAP))
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
