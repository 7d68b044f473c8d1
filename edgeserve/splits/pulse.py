"""The pulse of the machines of a split: a datagram to the port of a worker, which its process sends back.

llama.cpp's RPC has no time limits, and the system of a machine confirms what arrives for a process that hangs. So the
process itself has to answer, on a thread beside llama.cpp's. The question and its answer are as long, so that nobody
gains by asking in another's name.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Sequence

QUESTION, ANSWER = b"edgeserve pulse?", b"edgeserve pulse!"
NONCE = 8
"""Bytes behind both, chosen by the asker."""
LENGTH = len(QUESTION) + NONCE
MISSES = 8
"""Questions in a row without an answer after which a machine is lost."""
MOST_READ = 4 * MISSES
"""Datagrams of a machine that are read at a time; it owes one for each question."""
MEETING, TRIES = 0.3, 3
"""Seconds in which a machine must answer before a load, and how often it is asked. A first datagram may get lost while
the system looks for the machine."""


def listen(host: str, port: int) -> socket.socket:
    """A socket for ``answer``. Raises OSError."""
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        line.bind((host, port))
    except BaseException:
        line.close()
        raise
    return line


def answer(line: socket.socket, asked: Callable[[], object] = lambda: None) -> None:
    """Answer every question, until the socket is shut down. ``asked`` is called before each answer."""
    while True:
        data, address = line.recvfrom(LENGTH + 1)
        if not address:
            return
        if len(data) == LENGTH and data.startswith(QUESTION):
            asked()
            with contextlib.suppress(OSError):  # nobody can be reached there
                line.sendto(ANSWER + data[-NONCE:], address)


class Pulses:
    """The pulses of the workers at these endpoints ("address:port"). On one thread."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._nonce = os.urandom(NONCE)
        self._missed = dict.fromkeys(endpoints, 0)
        self._lines: dict[str, socket.socket] = {}
        for one in endpoints:
            host, _, port = one.rpartition(":")
            line = self._lines[one] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            line.setblocking(False)
            with contextlib.suppress(OSError):  # no way there: it never answers
                line.connect((host, int(port)))

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def meet(self) -> tuple[str, ...]:
        """Ask each worker; return those that do not answer, which are not watched. Blocks for a second at most."""
        missing = set(self._lines)
        for _ in range(TRIES):
            for one in missing:
                self._ask(one)
            waiting = {self._lines[one]: one for one in missing}
            while waiting and (found := select.select(list(waiting), (), (), MEETING)[0]):
                for line in found:
                    if self._hears(one := waiting.pop(line)):
                        missing.discard(one)
        for one in missing:
            self._lines.pop(one).close()
            del self._missed[one]
        return tuple(sorted(missing))

    def look(self, owed: bool) -> tuple[str, ...]:
        """Take the answers that have come, and ask anew; return the endpoints that are lost.

        Only questions while an answer is ``owed`` count. They are counted and not timed: a pause of
        this machine must not count against a node.
        """
        for one in self._lines:
            if self._hears(one) or not owed:
                self._missed[one] = 0
        lost = tuple(one for one, missed in self._missed.items() if missed >= MISSES)
        if owed:
            for one in self._lines:
                self._ask(one)
                self._missed[one] += 1
        return lost

    def _ask(self, endpoint: str) -> None:
        with contextlib.suppress(OSError):  # such as a refusal of the last question: a miss, too
            self._lines[endpoint].send(QUESTION + self._nonce)

    def _hears(self, endpoint: str) -> bool:
        """Whether answers have come since the last call. A machine that sends without end does not hold the thread."""
        heard = False
        with contextlib.suppress(OSError):
            for _ in range(MOST_READ):
                heard |= self._lines[endpoint].recv(LENGTH + 1) == ANSWER + self._nonce
        return heard
