"""The child's side: bounds on itself before it reads a byte of its input, then the work, then how it ended."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from edgeserve.errors import EdgeserveError
from edgeserve.processes import failures
from edgeserve.processes.frames import Channel, Frame, Kind
from edgeserve.processes.rights import decoder_confinement
from edgeserve.processes.start import OOM_MOST, raise_oom_score
from edgeserve.system import rlimits
from edgeserve.system.confinement import confine

Work = Callable[[Channel, Frame], Any]
STATM = "/proc/self/statm"
NICE = 10
"""Steps by which engines, and the answers of the server, go before these processes: one client may start many."""
XCPU_GAP = 1
"""Seconds between SIGXCPU, which means processor time, and SIGKILL, which could have another reason."""


def answer(sock: socket.socket, arguments: dict[str, Any], work: Work) -> None:
    """Do ``work`` on the first frame. The head of the last frame holds one of three keys:

    - ``result``
    - ``error``, as ``failures.write_error`` writes it
    - ``lacking``: the work took more memory than this process may take

    ``arguments``: the bounds in force from here on. Other errors than the product's end the child with a traceback.
    """
    channel = Channel(sock)
    limit(arguments["memory"], arguments["cpu"], arguments["shared"])
    frame = channel.receive()
    if frame is None:
        return
    head: dict[str, Any] = {"lacking": True}  # made now, since nothing may be left then
    with contextlib.suppress(ConnectionError):  # the server wants no more
        try:
            head = {"result": work(channel, frame)}
        except MemoryError:
            del frame  # the error's own frames are gone with it; the rest is enough for the last one
        except EdgeserveError as error:
            head = {"error": failures.write_error(error, "")}
        channel.send(Kind.DONE, 0, head)


def limit(memory: int, cpu: int | None, shared: bool) -> None:
    """Bound the addresses and the processor time of this process, and give up all rights that it does not need.

    Unless several requests share it, it lets other processes go first, and ends first where memory runs out.
    """
    import resource

    if not shared:
        os.nice(NICE)
        raise_oom_score(OOM_MOST)  # else the kernel may end an engine, or the server, which serve everybody
    if cpu is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + XCPU_GAP))
    if sys.platform == "linux":
        with open(STATM, encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        confine(decoder_confinement(used + memory, None))
    else:  # macOS bounds no addresses, and a thread of its own watches the server there
        rlimits.lower({"CORE": rlimits.NO_CORE})
