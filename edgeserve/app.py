"""Builds everything and injects it: settings and stored models → engines → gates → pool → application."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from edgeserve import exposure
from edgeserve.api.limits import Limits
from edgeserve.api.origin import Rules, read_host
from edgeserve.api.routes import exception_handlers, middleware, routes
from edgeserve.config import Config, EngineSettings, ServerSettings, chains
from edgeserve.engine import Engine, Job, ModelSpec
from edgeserve.errors import ConfigError
from edgeserve.live.ear import Ear
from edgeserve.live.sessions import Sessions
from edgeserve.memory.governor import make_governor
from edgeserve.missing import find_all
from edgeserve.models import catalog, entry
from edgeserve.models.needs import command, packages
from edgeserve.models.store import Store, expanded
from edgeserve.residency.monitor import IdlePolicy, Monitor
from edgeserve.residency.pool import Pool
from edgeserve.residency.thread_host import ThreadHost
from edgeserve.system import heap
from edgeserve.units import MB

log = logging.getLogger("edgeserve.app")

OF_PLAIN: tuple[Job, ...] = ("vision", "embedding")
"""Jobs that a plain GGUF file, which is stored as a language model, may be configured for."""


def specs(config: Config, store: Store) -> Iterator[ModelSpec]:
    """What models.toml lists, with the files on disk. Raises ModelMissing naming all that is missing, and what fetches
    it."""
    found = find_all(config, store)
    for job, settings in config.engines.items():
        stored = found[job]
        if lacking := store.needed(settings.model):
            log.warning("%s runs only with %s: %s", stored.name, packages(lacking), command(lacking))
        if stored.job != job and not (job in OF_PLAIN and stored.job == "llm"):
            shown = exposure.shown(settings.model)
            raise ConfigError(f"{config.source}: [{job}] model = {shown!r} is made for {stored.job}, not {job}")
        files = {**stored.files, **_projector(job, settings)}
        if job == "vision" and "mmproj" not in files:
            raise ConfigError(
                f'{config.source}: [vision] {exposure.shown(settings.model)!r} needs its projector: mmproj = "…"'
            )
        yield ModelSpec(
            job=job,
            name=stored.name,
            engine=_engine_for(job, stored.engine),
            files=files,
            device=settings.device,
            threads=settings.threads or None,
            options={**stored.options, **settings.options},
        )


def _projector(job: Job, settings: EngineSettings) -> Mapping[str, Path]:
    if job != "vision" or not settings.mmproj:
        return {}
    path = expanded(settings.mmproj)
    if not path.is_file():
        raise ConfigError(f"[vision] mmproj = {settings.mmproj!r}: no such file")
    return {"mmproj": path}


def _engine_for(job: Job, engine: str) -> str:
    """A plain GGUF file runs in the engine of the job that it is served for."""
    return entry.ENGINES[job] if job in OF_PLAIN and engine == entry.ENGINES["llm"] else engine


def _capped(spec: ModelSpec, max_new_tokens: int) -> ModelSpec:
    """The memory policy's cap on the tokens of one answer, where the engine's own table sets none."""
    if spec.job not in ("llm", "vision"):
        return spec
    return dataclasses.replace(spec, options={"max_new_tokens": max_new_tokens, **spec.options})


def make_engine(spec: ModelSpec) -> Engine:
    """The engine named by the spec's import string; constructing it loads nothing."""
    engine: Engine = _named(spec.engine)(spec)
    return engine


def _configured(config: Config, spec: ModelSpec) -> Engine:
    """The engine of a configured model. A mistake that only the engine can see names its line all the same."""
    try:
        return make_engine(_capped(spec, config.memory.max_new_tokens))
    except ConfigError as error:
        raise config.written.located(spec.job, error) if config.written.name else error from None


def _named(import_string: str) -> Any:
    module, _, name = import_string.partition(":")
    return getattr(importlib.import_module(module), name)


def build_pool(config: Config, store: Store) -> Pool:
    """Engines behind their gates, under one governor. Raises ModelMissing and ConfigError."""
    heap.tune()
    governor = make_governor(
        config.memory,
        ledger=store.root.parent / "memory.json",
        devices=_named(catalog.DEVICES),
        allocator=_named(catalog.ALLOCATOR)(),
    )
    return Pool(
        [ThreadHost(_configured(config, spec), governor) for spec in specs(config, store)],
        governor,
        queue_limit=config.server.queue_limit,
        pinned={job for job, settings in config.engines.items() if settings.pinned},
        chains=chains(config.engines),
    )


def _limits(server: ServerSettings) -> Limits:
    return Limits(
        max_body_bytes=server.max_body_mb * MB,
        max_json_bytes=server.max_json_mb * MB,
        body_seconds=server.body_timeout,
        max_text_chars=server.max_text_chars,
        max_audio_seconds=server.max_audio_seconds,
        remote_images=server.remote_images,
        remote_image_hosts=server.remote_image_hosts,
        api_key=server.api_key,
    )


def _rules(config: Config) -> Rules:
    """Raises ConfigError."""
    try:
        return Rules((*own_names(socket.gethostname()), *config.server.allowed_hosts), config.server.cors_origins)
    except ConfigError as error:
        raise config.written.located("server", error) if config.written.name else error from None


def own_names(host: str) -> set[str]:
    """A machine's name, with and without its domain; none where it is not fit for a URL."""
    site = read_host(host)
    return {site.name, site.name.partition(".")[0]} if site and not site.is_address else set()


def build(config: Config, pool: Pool) -> Starlette:
    """The application; its lifespan runs the governor and the monitor, and closes all engines at the end.

    Raises ConfigError.
    """
    limits, residency = _limits(config.server), config.residency
    idle = IdlePolicy(residency.warm_after, residency.idle_timeout, residency.check_interval)
    sessions = Sessions(
        Ear(pool),
        limit=config.server.live_sessions,
        idle_seconds=config.server.live_idle_seconds,
        max_seconds=limits.max_audio_seconds,
    )

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        monitor = Monitor(pool.gates.values(), pool.governor, idle, pool.idle)
        pool.governor.start()
        monitor.start()
        try:
            yield
        finally:
            sessions.close()
            await asyncio.to_thread(monitor.stop)
            await asyncio.to_thread(pool.governor.stop)
            await pool.stop()

    application = Starlette(
        routes=routes(),
        middleware=middleware(limits, _rules(config)),
        exception_handlers=exception_handlers(),
        lifespan=lifespan,
    )
    application.state.pool = pool
    application.state.limits = limits
    application.state.sessions = sessions
    application.state.memory_total = lambda: pool.governor.probe.latest().total
    return application
