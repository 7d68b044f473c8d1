"""Build the application: settings and stored models → engines → gates → pool → routes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

from starlette.applications import Starlette

from edgeserve.api.limits import BODY_MEMORY, Limits, max_body, max_pixels
from edgeserve.api.origin import Rules, read_host
from edgeserve.api.routes import exception_handlers, middleware, routes
from edgeserve.config import Config, ServerSettings
from edgeserve.errors import ConfigError
from edgeserve.figures.spans import NoTraces, Traces
from edgeserve.keys.ring import Keyring
from edgeserve.manage.manager import Manager, Means, idle_policy
from edgeserve.models.store import Store
from edgeserve.own_files import keys_path
from edgeserve.parts import Makers, Parts
from edgeserve.residency.monitor import Monitor
from edgeserve.residency.pool import Pool
from edgeserve.units import MB

log = logging.getLogger("edgeserve.app")


def _limits(server: ServerSettings, memory: int) -> Limits:
    """``memory``: bytes of the machine."""
    if server.max_body_mb * MB > memory // BODY_MEMORY:
        text = "max_body_mb = %d: four bodies may take %d of %d MB, and keep others from their memory; 0 gives %d MB"
        log.warning(text, server.max_body_mb, 4 * server.max_body_mb, memory // MB, max_body(memory) // MB)
    return Limits(
        max_image_pixels=max_pixels(memory),
        max_body_bytes=server.max_body_mb * MB or max_body(memory),
        max_json_bytes=server.max_json_mb * MB,
        body_seconds=server.body_timeout,
        max_text_chars=server.max_text_chars,
        max_audio_seconds=server.max_audio_seconds,
        remote_images=server.remote_images,
        remote_image_hosts=server.remote_image_hosts,
        unknown_fields=server.unknown_fields,
    )


def _rules(config: Config) -> Rules:
    """Raises ConfigError."""
    try:
        return Rules((*own_names(socket.gethostname()), *config.server.allowed_hosts), config.server.cors_origins)
    except ConfigError as error:
        raise config.written.located("server", error) if config.written.name else error from None


def _check_peers(config: Config) -> None:
    """Raises ConfigError for an address that cannot be one of a node. The first request for their state needs them."""
    if not config.server.peers:
        return
    from edgeserve.cluster.peers import read_peers

    try:
        read_peers(config.server.peers)
    except ConfigError as error:
        where = ConfigError(f"[server] peers: {error.message}", param="peers")
        raise config.written.located("server", where) if config.written.name else where from None


def own_names(host: str) -> set[str]:
    """A machine's name with and without its domain. Empty when the name does not fit into a URL."""
    site = read_host(host)
    return {site.name, site.name.partition(".")[0]} if site and not site.is_address else set()


def keyring(config: Config, store: Store) -> Keyring:
    """The keys of the settings and of their file. Raises ConfigError."""
    return Keyring(config.server.api_key, keys_path(config, store))


def build(
    config: Config,
    pool: Pool,
    means: Means | None = None,
    traces: Traces | None = None,
    ring: Keyring | None = None,
) -> Starlette:
    """The application. Its lifespan starts the governor and the monitor, and closes all engines at the end.

    ``means`` to manage the server while it runs; without them its models stay as they are. ``traces``: takes the spans
    of requests, and is closed at the end. ``ring``: the keys in force; None: those that the settings name. Raises
    ConfigError.
    """
    _check_peers(config)
    limits, means = _limits(config.server, pool.governor.probe.machine()), means or Means.none(config)
    ring = ring or keyring(config, means.store)
    monitor = Monitor(lambda: pool.gates.values(), pool.governor, idle_policy(config), pool.idle)
    manager = Manager(config, pool, monitor, means)
    parts = Parts(Makers(config, pool, limits, means.store).table())

    application = Starlette(
        routes=routes(),
        middleware=middleware(
            limits, _rules(config), ring, pool.figures, traces or NoTraces(), pool.governor.accounts.traffic
        ),
        exception_handlers=exception_handlers(),
        lifespan=lambda application: _lifespan(parts, traces),
    )
    application.router.redirect_slashes = False  # api/paths.py has taken the last slash: it would come again for ever
    application.state = parts
    application.state.pool = pool
    application.state.manager = manager
    application.state.monitor = monitor
    application.state.ring = ring
    application.state.llamacpp_metrics = config.server.llamacpp_metrics
    application.state.begin_end = lambda: parts.used("pulls", lambda pulls: pulls.stop(0))
    application.state.limits = limits
    application.state.memory_total = lambda: pool.governor.probe.known().total
    return application


@contextlib.asynccontextmanager
async def _lifespan(parts: Parts, traces: Traces | None) -> AsyncIterator[None]:
    pool, monitor = parts.pool, parts.monitor
    pool.governor.start()
    monitor.start()
    try:
        yield
    finally:
        parts.close()
        parts.used("sessions", lambda sessions: sessions.close())
        await asyncio.to_thread(parts.used, "pulls", lambda pulls: pulls.stop())
        await asyncio.to_thread(monitor.stop)
        await asyncio.to_thread(pool.governor.stop)
        await asyncio.to_thread(parts.used, "sound_files", lambda files: files.close())
        await asyncio.to_thread(parts.used, "picture_files", lambda files: files.close())
        await pool.stop()
        await parts.manager.stop()
        if view := parts.used("cluster", lambda made: made):
            await view.close()
        if traces is not None:
            await asyncio.to_thread(traces.close)
