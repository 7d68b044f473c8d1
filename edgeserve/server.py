"""The server process: Uvicorn on one socket, ended cleanly by SIGTERM, Ctrl-C or the end of its terminal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette

from edgeserve import app, exposure, logs
from edgeserve.api.auth import is_loopback
from edgeserve.config import Config, ServerSettings
from edgeserve.connections import (
    ACCEPTED_AT_ONCE,
    LOOK_SECONDS,
    Connections,
    Patience,
    most,
    raise_descriptors,
)
from edgeserve.engine import Job
from edgeserve.errors import ConfigError, EdgeserveError, ShuttingDown
from edgeserve.live.window import FRAME_BYTES, MAX_PUSH_BYTES
from edgeserve.models.store import Store
from edgeserve.protocols.http import HttpConnection
from edgeserve.residency.pool import Pool
from edgeserve.system.hangup import has_terminal

log = logging.getLogger("edgeserve.server")

LAST_WORDS_SECONDS = 5.0
"""What streams get after the drain time to tell their clients that they were cut."""
HURRY_SECONDS = 1.0
"""What they get after a second Ctrl-C, before their connections are dropped."""
NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
SWITCH_SECONDS = 0.0005
"""For which one thread keeps the interpreter from the others, instead of 5 ms: a step of a model hands it over several
times. Measured beside a client that floods with large schemas, a token of another stream takes 85 ms instead of 120."""
BACKLOG = 1024
"""Connections that the system keeps until they are accepted."""


def serve(
    config: Config, store: Store, on_ready: Callable[[str], None] = lambda address: None, *, insecure: bool = False
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. ``on_ready`` gets the address once requests are taken.

    ``insecure``: other machines may come in without a key. Raises ConfigError when they could and must not, and when
    the address cannot be bound; and whatever building and mapping the engines raises.
    """
    logs.configure(config.server.log_level, as_json=config.server.log_json)
    for line in exposure.warnings(config):
        log.warning("%s", line)
    sys.setswitchinterval(SWITCH_SECONDS)
    pool = app.build_pool(config, store)
    connections = Connections(most(config.server.max_connections, raise_descriptors()))
    patience = Patience(write=config.server.write_timeout)
    with contextlib.closing(listen(config.server.host, config.server.port)) as listener:
        check_open(config, listener.getsockname()[0], insecure=insecure)
        preload = [job for job, settings in config.engines.items() if settings.preload]
        server = Server(app.build(config, pool), pool, config.server.drain_seconds, preload, connections, patience)
        server.on_ready = lambda: on_ready(address(listener))
        asyncio.run(server.serve(sockets=[listener]))
    return 0 if server.started else 128 + server.told


def check_open(config: Config, bound: str, *, insecure: bool) -> None:
    """Raises ConfigError where other machines reach the server, no key is asked for, and nobody said ``insecure``."""
    if config.server.api_key or is_loopback(bound):
        return
    if not insecure:
        raise ConfigError(
            f"listening on {bound} without a key would let whoever reaches this machine use it: set EDGESERVE_API_KEY "
            f"(or api_key under [server] in models.toml), or say with --insecure that it is wanted"
        )
    log.warning("listening on %s without api_key: whoever reaches this machine can use it", bound)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, not 0: asyncio sets TCP_NODELAY only where it reads TCP, and without it each small write waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host.encode()  # or a host of other bytes would be a TypeError
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:  # a host that is no name is a matter of encoding
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        is_host = isinstance(error, (UnicodeError, socket.gaierror)) or error.errno == errno.EADDRNOTAVAIL
        other = "an address of this machine with --host" if is_host else "another with --port, or 0 for a free one"
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}; choose {other}") from None
    return listener


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def websocket(**connection: Any) -> asyncio.Protocol:
    """The protocol of one connection. A server that nobody opens a WebSocket to does not carry its library."""
    from edgeserve.protocols.websocket import SocketConnection

    return SocketConnection(**connection)


class Server(uvicorn.Server):
    """Uvicorn whose shutdown drains the pool, and which ends with exit code 0 when it was asked to end."""

    def __init__(
        self,
        application: Starlette,
        pool: Pool,
        drain_seconds: float,
        preload: Sequence[Job] = (),
        connections: Connections | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.connections = Connections(ServerSettings().max_connections) if connections is None else connections
        patience = patience or Patience()
        shared = {"connections": self.connections, "patience": patience}
        self._look_seconds = min(LOOK_SECONDS, *(seconds / 4 for seconds in astuple(patience)))
        super().__init__(
            uvicorn.Config(
                application,
                loop="asyncio",
                http=functools.partial(HttpConnection, **shared),  # type: ignore[arg-type]  # it makes the protocol
                ws=functools.partial(websocket, **shared),  # type: ignore[arg-type]
                ws_max_size=MAX_PUSH_BYTES + FRAME_BYTES,
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # or whoever asks could say in X-Forwarded-For who it is
                backlog=ACCEPTED_AT_ONCE,
                timeout_graceful_shutdown=int(drain_seconds + LAST_WORDS_SECONDS),
            )
        )
        self.on_ready: Callable[[], None] = lambda: None
        self._pool = pool
        self._drain_seconds = drain_seconds
        self._preload = preload
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking: asyncio.Task[None] | None = None
        self._terminal = self._hurried = False
        self.told: int = signal.SIGTERM
        """The signal that ended the server."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Map the models, then take requests. Raises what mapping raises: not in the lifespan, which would log it
        as a traceback."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._pool.start(self._preload)
        except EdgeserveError:
            await self._pool.stop()
            raise
        if self.should_exit:  # it was told to end before it served anything
            await self._pool.stop()
            return
        try:
            await super().startup(sockets)
            for one in sockets or ():
                one.listen(BACKLOG)  # asyncio accepts as many at once as it was told; the system may keep more
        except OSError as error:  # another server began to listen while models were mapped
            await self.lifespan.shutdown()
            raise ConfigError(f"cannot listen: {error.strerror}; choose another with --port, or 0") from None
        asyncio.get_running_loop().set_exception_handler(self._on_failure)
        self._looking = asyncio.create_task(self._look())
        if self.started:
            self.on_ready()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            self.connections.look()
            logs.tell_repeated()

    def _on_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """One line where a connection cannot be accepted. asyncio tries again in a second, and would log each attempt
        with its traceback."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in NO_RESOURCES:
            log.warning("a connection cannot be accepted: %s; %d are open", error.strerror, len(self.connections))
        else:
            loop.default_exception_handler(context)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams under way may end; those that need longer than the drain time are told that they were cut."""
        drain = asyncio.create_task(self._pool.drain(self._drain_seconds))
        # Before Uvicorn cancels what is left, with a traceback for each client that does not read or send on.
        last = asyncio.get_running_loop().call_later(self._drain_seconds + LAST_WORDS_SECONDS - 1, self._drop)
        await super().shutdown(sockets)
        last.cancel()
        await drain
        if self._looking is not None:
            self._looking.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, Ctrl-C meanwhile cuts the answers under way, and one more kills the process."""
        if self.should_exit and sig == signal.SIGINT:
            # While models are mapped nothing has been promised to anybody.
            if self._hurried or not self.started or self._loop is None:
                os._exit(128 + sig)
            self._hurried = True
            self._loop.call_soon_threadsafe(self._hurry)
        self.should_exit, self.told = True, sig

    def handle_hangup(self, sig: int, frame: FrameType | None) -> None:
        """The end of the terminal that the server was started from ends the server; any other SIGHUP does not."""
        if self._terminal and not has_terminal():
            self.handle_exit(signal.SIGTERM, frame)
        elif self._loop is not None:
            text = "SIGHUP changes nothing: settings are read once; end the server with SIGTERM and start it again"
            self._loop.call_soon_threadsafe(log.info, text)

    def _hurry(self) -> None:
        """Cut the answers under way, and drop the connections of clients that do not read the last words."""
        for gate in self._pool.gates.values():
            gate.abort(ShuttingDown("the server was told to end at once"))
        asyncio.get_running_loop().call_later(HURRY_SECONDS, self._drop)

    def _drop(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
            yield
            return
        # Uvicorn raises the signal once more after a clean shutdown, and the process would end with -15.
        handlers = {signal.SIGINT: self.handle_exit, signal.SIGTERM: self.handle_exit}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has it ignored
            handlers[signal.SIGHUP] = self.handle_hangup
        self._terminal = has_terminal()
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
