"""This machine's memory for models of other machines: the process of ``edgeserve rpc-worker``, and its life."""

from __future__ import annotations

import dataclasses
import functools
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from edgeserve.errors import EngineFailure
from edgeserve.hosts.restarts import Restarts
from edgeserve.memory.budget import budget
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.named import find
from edgeserve.processes.child import Child, ended
from edgeserve.processes.launcher import Launcher
from edgeserve.processes.rights import NULL, absolute, runtime_paths
from edgeserve.splits import asking, pulse
from edgeserve.system import keepalive
from edgeserve.system.confinement import Confinement, confine
from edgeserve.system.probe import Probe
from edgeserve.units import MB

log = logging.getLogger("edgeserve.process")

ENTRY = "edgeserve.hosts.offer:main"
SERVER = "edgeserve.engines.llama.rpc_worker:serve"
READY = 60.0
"""Seconds that the process has until it answers."""
LOOK = 0.1
"""Seconds between two looks whether it does."""
BESIDE = 256 * MB
"""Bytes that the kernel grants beside the offer: the interpreter, stacks of threads, and messages under way."""
LONGEST_WORDS = 4096


def main(connection: socket.socket, arguments: dict[str, Any]) -> None:
    """The entry of the process. Its last words go through ``connection``."""
    host, port, policy = arguments["host"], arguments["port"], MemoryPolicy(**arguments["policy"])
    size = arguments["bytes"]
    read = absolute(runtime_paths())
    try:
        line = pulse.listen(host, port)  # no confined process may open such a socket
    except OSError as error:
        _say(connection, f"UDP port {port} of {host} cannot be used for the pulse: {error.strerror}")
        raise SystemExit(1) from error
    confine(Confinement(read=read, devices=(NULL,), listen=port, data_bytes=size + BESIDE))
    # A load asks for the pulse before it connects: its connections end with the machine that made them.
    asked = functools.partial(keepalive.keep_alive, port)
    threading.Thread(target=pulse.answer, args=(line, asked), name="edgeserve-pulse", daemon=True).start()
    probe = Probe(override_mb=policy.override_memory_mb)
    try:
        find(SERVER)(f"{host}:{port}", size, lambda: budget(probe.read_quick(), policy).usable)
    except EngineFailure as error:
        _say(connection, error.message)
        raise SystemExit(1) from error


def _say(connection: socket.socket, words: str) -> None:
    connection.sendall(words.encode()[:LONGEST_WORDS])


class Offering:
    """Keeps a process that offers ``size`` bytes at "host:port". ``pause`` waits for so many seconds.

    ``ask``: see ``asking.ask``.
    """

    def __init__(
        self,
        launcher: Launcher,
        endpoint: str,
        size: int,
        policy: MemoryPolicy,
        *,
        pause: Callable[[float], object] = lambda seconds: threading.Event().wait(seconds),
        clock: Callable[[], float] = time.monotonic,
        ask: Callable[[str], asking.Offer] = asking.ask,
    ) -> None:
        self.endpoint = endpoint
        self._launcher = launcher
        host, _, port = endpoint.rpartition(":")
        self._arguments = {"host": host, "port": int(port), "bytes": size, "policy": dataclasses.asdict(policy)}
        self._pause = pause
        self._clock = clock
        self._ask = ask
        self._restarts = Restarts("rpc-worker", clock)

    def begin(self) -> Child:
        """Start the process, and wait until it answers. Raises EngineFailure with the reason why it does not."""
        child = self._launcher.launch(ENTRY, self._arguments, "rpc-worker")
        until = self._clock() + READY
        while child.wait(LOOK) is None:
            try:
                self._ask(self.endpoint)
            except asking.Silent:
                return child  # a client of another machine was there first
            except EngineFailure as error:
                if self._clock() > until:
                    child.close()
                    raise EngineFailure(f"the worker does not answer after {READY:g} s: {error.message}") from error
            else:
                return child
        words = _last_words(child) or f"the worker {ended(child.exit)}"
        child.close()
        raise EngineFailure(words)

    def keep(self, child: Child) -> None:
        """Start the process again each time that it has ended. Returns only by an exception."""
        while True:
            with child:
                code = child.wait()
            self._restarts.note()
            seconds = self._restarts.left()
            log.error("the worker %s; it starts again in %.0f s", ended(code), seconds)
            self._pause(seconds)
            child = self.begin()


def _last_words(child: Child) -> str:
    child.socket.settimeout(LOOK)
    try:
        return child.socket.recv(LONGEST_WORDS).decode(errors="replace")
    except OSError:
        return ""
