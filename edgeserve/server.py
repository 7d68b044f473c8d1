"""The server process: Uvicorn on one socket, ended cleanly by SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette

from edgeserve import app, exposure, logs
from edgeserve.api.auth import is_loopback
from edgeserve.config import Config
from edgeserve.engine import Job
from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.live.window import FRAME_BYTES, MAX_PUSH_BYTES
from edgeserve.pool import Pool
from edgeserve.store import Store

log = logging.getLogger("edgeserve.server")

LAST_WORDS_SECONDS = 5.0
"""What streams get after the drain time to tell their clients that they were cut."""
MAX_CONNECTIONS = 512
"""Open connections beyond which new ones are answered 503 at once."""


def serve(
    config: Config,
    store: Store,
    environ: Mapping[str, str],
    on_ready: Callable[[str], None] = lambda address: None,
    *,
    insecure: bool = False,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. ``on_ready`` gets the address once requests are taken.

    ``insecure``: other machines may come in without a key. Raises ConfigError when they could and must not, and when
    the address cannot be bound; and whatever building and mapping the engines raises.
    """
    logs.configure(config.server.log_level, as_json=config.server.log_json)
    for line in exposure.warnings(config):
        log.warning("%s", line)
    pool = app.build_pool(config, store, environ)
    with contextlib.closing(listen(config.server.host, config.server.port)) as listener:
        check_open(config, listener.getsockname()[0], insecure=insecure)
        preload = [job for job, settings in config.engines.items() if settings.preload]
        server = Server(app.build(config, pool), pool, config.server.drain_seconds, preload)
        server.on_ready = lambda: on_ready(address(listener))
        asyncio.run(server.serve(sockets=[listener]))
    return 0 if server.started else 1


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
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port, or 0 for a free one"
        ) from None
    return listener


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def websocket(**connection: Any) -> asyncio.Protocol:
    """The protocol of one connection. A server that nobody opens a WebSocket to does not carry its library."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**connection)


class Server(uvicorn.Server):
    """Uvicorn whose shutdown drains the pool, and which ends with exit code 0 when it was asked to end."""

    def __init__(self, application: Starlette, pool: Pool, drain_seconds: float, preload: Sequence[Job] = ()) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                loop="asyncio",
                http="h11",
                ws="edgeserve.server:websocket",
                ws_max_size=MAX_PUSH_BYTES + FRAME_BYTES,
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # or whoever asks could say in X-Forwarded-For who it is
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=int(drain_seconds + LAST_WORDS_SECONDS),
            )
        )
        self.on_ready: Callable[[], None] = lambda: None
        self._pool = pool
        self._drain_seconds = drain_seconds
        self._preload = preload

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Map the models, then take requests. Raises what mapping raises: not in the lifespan, which would log it
        as a traceback."""
        try:
            await self._pool.start(self._preload)
        except EdgeserveError:
            await self._pool.stop()
            raise
        await super().startup(sockets)
        if self.started:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams under way may end; those that need longer than the drain time are told that they were cut."""
        drain = asyncio.create_task(self._pool.drain(self._drain_seconds))
        await super().shutdown(sockets)
        await drain

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
            yield
            return
        # Uvicorn raises the signal once more after a clean shutdown, and the process would end with -15.
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
