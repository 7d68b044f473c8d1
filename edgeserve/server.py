"""The server process: Uvicorn on one socket. SIGTERM, Ctrl-C or the end of its terminal end it cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from uvicorn.server import Server as UvicornServer

from edgeserve import activation, app, conversations, exposure, logs
from edgeserve.activity import Activity, Used
from edgeserve.assembly import assemble
from edgeserve.attendants import Attendant, Revocation, Served, Tuner
from edgeserve.config import Config, ServerSettings
from edgeserve.connections import BACKLOG, LOOK_SECONDS, Connections, Patience, most, raise_descriptors
from edgeserve.doorway import make_doorway
from edgeserve.ending import HURRY_SECONDS, LastResort, behind_answers
from edgeserve.errors import ConfigError, EdgeserveError, ShuttingDown
from edgeserve.figures.collecting import collecting
from edgeserve.listening import address, check_open, listen
from edgeserve.manage.manager import Means
from edgeserve.models.store import Store
from edgeserve.ports import Port, further
from edgeserve.protocols.reading import Reading
from edgeserve.protocols.uvicorn_config import uvicorn_config
from edgeserve.residency.pool import Pool
from edgeserve.system import heap, turns
from edgeserve.system.hangup import has_terminal
from edgeserve.system.signals import handled

if TYPE_CHECKING:
    from edgeserve.keys.ring import Keyring
    from edgeserve.tls.certificate import Certificate

log = logging.getLogger("edgeserve.server")

LAST_WORDS_SECONDS = 5.0
"""Time after the drain time in which streams tell their clients that they were cut."""
END_SECONDS = 10.0
"""Time after the last words in which engines close. Then a load on a thread of the server ends with the process."""
NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
LOOK_SECONDS_AT_START = 0.2
"""Time between two looks for a signal while models are mapped."""


def serve(
    config: Config,
    store: Store,
    on_ready: Callable[[str], None] = lambda address: None,
    *,
    insecure: bool = False,
    read: Callable[[], Config] | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Raises ConfigError for an address that cannot be bound or needs a key, and the errors of building the engines.
    Arguments:
        on_ready  gets the address when the server accepts requests
        insecure  other machines may use the server without a key
        read      reads the settings again for a reload; None: they stay as they are
        environ   variables of systemd: sockets, and where to tell the state of the service
    """
    _begin(config)
    pool, assembly = assemble(config, store)
    conversations.sweep(pool.configured.values())
    means = Means(store, assembly.hosts, read or (lambda: config))
    heap.exempt()
    connections = Connections(most(config.server.max_connections, raise_descriptors()))
    patience = Patience(write=config.server.write_timeout)
    with contextlib.ExitStack() as stack:
        listeners = _listeners(config, environ, stack)
        ring = _ring(config, store, listeners, insecure=insecure)
        application = app.build(config, pool, means, collecting(os.environ), ring)
        doorway = make_doorway(config, store, listeners[0], environ)  # behind the check of the names that it certifies
        server = Server(
            application, pool, config.server.drain_seconds, config.preload, connections, patience, doorway.certificate
        )
        served = Served(store.root, application.state.manager.folders)
        tuners = (Tuner.of(pool),) if config.server.tune == "idle" else ()
        server.attendants = *doorway.attendants, Revocation(ring), served, *tuners
        server.ports = stack.enter_context(further(config, application.state, insecure=insecure))
        server.on_ready = lambda: on_ready(address(listeners[0], doorway.scheme))
        asyncio.run(server.serve(sockets=listeners))
    return 0 if server.started else 128 + server.ended_by


def _begin(config: Config) -> None:
    """Prepare the process: its log, and short turns of its threads."""
    logs.configure(config.server.log_level, config.server.log_format)
    for line in exposure.warnings(config):
        log.warning("%s", line)
    turns.shorten()


def _listeners(config: Config, environ: Mapping[str, str], stack: contextlib.ExitStack) -> list[socket.socket]:
    """The sockets of systemd, else one on the configured address; the stack closes them. Raises ConfigError."""
    listeners = activation.listeners(environ) or [listen(config.server.host, config.server.port)]
    for one in listeners:
        stack.enter_context(contextlib.closing(one))
    return listeners


def _ring(config: Config, store: Store, listeners: Sequence[socket.socket], *, insecure: bool) -> Keyring:
    """The keys of the server. Raises ConfigError where other machines could use the server without one."""
    ring = app.keyring(config, store)
    for one in listeners:
        check_open(one.getsockname()[0], locked=ring.required, insecure=insecure)
    return ring


class Server(UvicornServer):
    """Uvicorn that drains the pool before it ends, and ends with exit code 0 when a signal asked for it."""

    def __init__(
        self,
        application: Starlette,
        pool: Pool,
        drain_seconds: float,
        preload: Sequence[str] = (),
        connections: Connections | None = None,
        patience: Patience | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.connections = Connections(ServerSettings().max_connections) if connections is None else connections
        patience = patience or Patience()
        shared = self._shared = {"connections": self.connections, "patience": patience, "reading": Reading()}
        self.look_seconds = min(LOOK_SECONDS, *(seconds / 4 for seconds in astuple(patience)))
        """Seconds between two looks at connections and attendants."""
        end_seconds = int(drain_seconds + LAST_WORDS_SECONDS)
        super().__init__(uvicorn_config(application, shared, certificate, end_seconds))
        self.on_ready: Callable[[], None] = lambda: None
        self._application = application
        self.ports: list[Port] = []
        """Further ports, which open and close with the server."""
        self.attendants: Sequence[Attendant] = ()
        self._activity = Activity(self, cast(Used, application.state))
        self._pool = pool
        self._drain_seconds, self._preload = drain_seconds, preload
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking: asyncio.Task[None] | None = None
        self._terminal = self._hurried = self._reload_later = False
        self._last_resort = LastResort(lambda: pool.loading, lambda: os._exit(128 + self.ended_by))
        self.ended_by: int = signal.SIGTERM
        """The signal that ended the server."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Map the models, then accept requests. Raises the errors of mapping.

        Uvicorn's lifespan would log such an error as a traceback, so mapping comes before it.
        """
        self._loop = asyncio.get_running_loop()
        try:
            await self._map()
        except EdgeserveError as error:
            await self._stop_pool()
            if not self.should_exit:
                raise
            log.info("the models are not mapped: %s", error.message)
            return
        if self.should_exit:  # a signal came before the server served anything
            await self._stop_pool()
            return
        try:
            await super().startup(sockets)
            for one in sockets or ():
                one.listen(BACKLOG)  # asyncio listened with its own, smaller backlog
            for port in self.ports:
                self.servers.append(await port.open(self.server_state, self._shared))
        except OSError as error:  # another server began to listen while models were mapped
            await self.lifespan.shutdown()
            raise ConfigError(f"cannot listen: {error.strerror}; choose another with --port, or 0") from None
        asyncio.get_running_loop().set_exception_handler(self._on_failure)
        self._looking = asyncio.create_task(self._look())
        if self.started:
            self.on_ready()
            for attendant in self.attendants:
                await attendant.begin()
            if self._reload_later:
                self._reload()

    async def _map(self) -> None:
        """Map the models. A signal meanwhile gives the load up. Raises the errors of mapping."""
        mapping = asyncio.ensure_future(self._pool.ahead.start(self._preload))
        while not (await asyncio.wait([mapping], timeout=LOOK_SECONDS_AT_START))[0]:
            if self.should_exit:
                self._last_resort.arm(END_SECONDS)
                await self._pool.give_up()
        await mapping

    async def _stop_pool(self) -> None:
        await self._pool.stop()
        self._last_resort.disarm()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self.look_seconds)
            self.connections.look()
            logs.tell_repeated()
            for one in self.attendants:
                try:
                    one.look(self._activity)
                except Exception:  # an error of one attendant must not stop the deadlines of all connections
                    log.exception("%s could not look at the server", type(one).__name__)

    def _on_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """One line when a connection cannot be accepted; asyncio would log a traceback each second."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in NO_RESOURCES:
            log.warning("a connection cannot be accepted: %s; %d are open", error.strerror, len(self.connections))
        else:
            loop.default_exception_handler(context)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let streams under way end within the drain time, then tell the clients of longer ones that they were cut."""
        self._last_resort.arm(self._drain_seconds + LAST_WORDS_SECONDS + END_SECONDS)
        self._application.state.begin_end()
        for attendant in self.attendants:
            attendant.end_begins()
        drain = asyncio.create_task(self._pool.drain(self._drain_seconds))
        for port in self.ports:
            await port.close()
        for attendant in self.attendants:
            await attendant.end()
        # Uvicorn would cancel the remaining tasks with a traceback for each client that does not read or send.
        last = asyncio.get_running_loop().call_later(self._drain_seconds + LAST_WORDS_SECONDS - 1, self._drop)
        await super().shutdown(sockets)
        last.cancel()
        await drain
        self._last_resort.disarm()
        if self._looking is not None:
            self._looking.cancel()
        for attendant in self.attendants:
            attendant.drained()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains the server. Ctrl-C during the drain cuts all answers; one more kills the process."""
        if self.should_exit and sig == signal.SIGINT:
            # The server has accepted no request while it maps models.
            if self._hurried or not self.started or self._loop is None:
                os._exit(128 + sig)
            self._hurried = True
            self._loop.call_soon_threadsafe(self._hurry)
        self.should_exit, self.ended_by = True, sig

    def handle_hangup(self, sig: int, frame: FrameType | None) -> None:
        """End the server when its terminal is gone; any other SIGHUP reads the settings again."""
        if self._terminal and not has_terminal():
            self.handle_exit(signal.SIGTERM, frame)
        elif self._loop is not None and not self.should_exit:
            self._loop.call_soon_threadsafe(self._reload)

    def _reload(self) -> None:
        """Read the settings again; a signal during the start waits for its end."""
        if self.started:
            self._application.state.manager.reload_soon()
        else:
            self._reload_later = True

    def _hurry(self) -> None:
        """Cut all answers, and drop the connections of clients that do not read the last event."""
        gates = (*self._pool.gates.values(), *self._pool.leaving)
        for gate in gates:
            gate.abort(ShuttingDown("the server was told to end at once"))
        self._last_resort.arm(2 * HURRY_SECONDS)
        behind_answers(lambda: any(gate.work for gate in gates), self._drop, LAST_WORDS_SECONDS)

    def _drop(self) -> None:
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            if connection.transport is not None:
                connection.cut_at_end()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
            yield
            return
        # Uvicorn raises the signal once more after a clean shutdown, and the process would end with -15.
        handlers = {signal.SIGINT: self.handle_exit, signal.SIGTERM: self.handle_exit}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            handlers[signal.SIGHUP] = self.handle_hangup
        self._terminal = has_terminal()
        with handled(handlers):
            yield
