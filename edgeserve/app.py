"""Build the application: settings and stored models → engines → gates → pool → routes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

from starlette.applications import Starlette

from edgeserve.api.limits import Limits
from edgeserve.api.origin import Rules, read_host
from edgeserve.api.routes import exception_handlers, middleware, routes
from edgeserve.config import Config, ServerSettings
from edgeserve.errors import ConfigError
from edgeserve.manage.manager import Manager, Means, idle_policy
from edgeserve.parts import Makers, Parts
from edgeserve.residency.monitor import Monitor
from edgeserve.residency.pool import Pool
from edgeserve.units import MB

log = logging.getLogger("edgeserve.app")


def _limits(server: ServerSettings) -> Limits:
    return Limits(
        max_body_bytes=server.max_body_mb * MB,
        max_json_bytes=server.max_json_mb * MB,
        body_seconds=server.body_timeout,
        max_text_chars=server.max_text_chars,
        max_audio_seconds=server.max_audio_seconds,
        remote_images=server.remote_images,
        remote_image_hosts=server.remote_image_hosts,
        unknown_fields=server.unknown_fields,
        api_key=server.api_key,
    )


def _rules(config: Config) -> Rules:
    """Raises ConfigError."""
    try:
        return Rules((*own_names(socket.gethostname()), *config.server.allowed_hosts), config.server.cors_origins)
    except ConfigError as error:
        raise config.written.located("server", error) if config.written.name else error from None


def own_names(host: str) -> set[str]:
    """A machine's name with and without its domain. Empty when the name does not fit into a URL."""
    site = read_host(host)
    return {site.name, site.name.partition(".")[0]} if site and not site.is_address else set()


def build(config: Config, pool: Pool, means: Means | None = None) -> Starlette:
    """The application. Its lifespan starts the governor and the monitor, and closes all engines at the end.

    ``means`` to manage the server while it runs; without them its models stay as they are. Raises ConfigError.
    """
    limits, means = _limits(config.server), means or Means.none(config)
    monitor = Monitor(lambda: pool.gates.values(), pool.governor, idle_policy(config), pool.idle)
    manager = Manager(config, pool, monitor, means)
    parts = Parts(Makers(config, pool, limits, means.store).table())

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
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
            await manager.stop()

    application = Starlette(
        routes=routes(),
        middleware=middleware(limits, _rules(config)),
        exception_handlers=exception_handlers(),
        lifespan=lifespan,
    )
    application.state = parts
    application.state.pool = pool
    application.state.manager = manager
    application.state.monitor = monitor
    application.state.begin_end = lambda: parts.used("pulls", lambda pulls: pulls.stop(0))
    application.state.limits = limits
    application.state.memory_total = lambda: pool.governor.probe.latest().total
    return application
