"""Build the application: settings and stored models → engines → gates → pool → routes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path

from starlette.applications import Starlette

from edgeserve import exposure
from edgeserve.api.limits import Limits
from edgeserve.api.origin import Rules, read_host
from edgeserve.api.pictures import apart
from edgeserve.api.pictures.apart import PictureFilesApart
from edgeserve.api.pictures.reader import PictureFiles, PictureFilesHere
from edgeserve.api.routes import exception_handlers, middleware, routes
from edgeserve.audio.apart import SHARED, SoundFilesApart
from edgeserve.audio.files import SoundFiles, SoundFilesHere
from edgeserve.config import Config, ServerSettings, chains, tables
from edgeserve.engine import Engine, ModelSpec
from edgeserve.errors import ConfigError
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import INFO, PICTURES, Job
from edgeserve.live.ear import Ear
from edgeserve.live.sessions import Sessions
from edgeserve.media.children import Children
from edgeserve.memory.governor import make_governor
from edgeserve.missing import find_all
from edgeserve.models import catalog
from edgeserve.models.folder import expanded
from edgeserve.models.needs import command, packages
from edgeserve.models.store import Store, StoredModel
from edgeserve.named import find, make_engine
from edgeserve.processes.launcher import Launcher, make_launcher
from edgeserve.processes.resting import Resting
from edgeserve.processes.roster import Roster
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.host import Host
from edgeserve.residency.mailbox import Deliveries
from edgeserve.residency.monitor import IdlePolicy, Monitor
from edgeserve.residency.pool import Pool
from edgeserve.system import heap
from edgeserve.units import MB

log = logging.getLogger("edgeserve.app")

STATES = "prefix_cache_dir"
"""Option of the engines that keep conversations on disk."""


def specs(config: Config, store: Store) -> Iterator[ModelSpec]:
    """The configured models with their files. Raises ModelMissing with the commands that fetch what is missing."""
    found = find_all(config, store)
    for job, settings in config.engines.items():
        stored = found[job]
        if lacking := store.needed(settings.model):
            log.warning("%s runs only with %s: %s", stored.name, packages(lacking), command(lacking))
        shown = exposure.shown(settings.model)
        if stored.job != job and stored.job not in INFO[job].also_runs:
            raise ConfigError(f"{config.label(job, 'model')} = {shown!r} is made for {stored.job}, not {job}")
        files = {**stored.files, **_projector(config, job)}
        if job in PICTURES and "mmproj" not in files:
            raise ConfigError(f'{config.label(job, "model")} = {shown!r} needs its projector: mmproj = "…"')
        yield ModelSpec(
            job=job,
            name=stored.name,
            engine=_engine_for(job, stored),
            files=files,
            device=settings.device,
            threads=settings.threads or None,
            options=_with_states({**_options_of(stored, job), **settings.options}, config, store, job),
        )


def _options_of(stored: StoredModel, job: Job) -> Mapping[str, object]:
    """The catalogue's options of the model, without those that the configured job does not have."""
    known = tables()[job]
    return {name: value for name, value in stored.options.items() if stored.job == job or name in known}


def _with_states(options: dict[str, object], config: Config, store: Store, job: Job) -> Mapping[str, object]:
    """The options with the folder of saved conversations, where the job has such a key and no value for it."""
    if STATES in tables()[job] and not options.get(STATES):
        named = config.server.states_dir
        folder = expanded(named, config.label("server", "states_dir")) if named else store.root.parent / "states"
        return {**options, STATES: str(folder.absolute())}
    return options


def _projector(config: Config, job: Job) -> Mapping[str, Path]:
    """The projector that the settings name. Raises ConfigError when the file does not exist."""
    if job not in PICTURES or not (named := config.engines[job].mmproj):
        return {}
    label = config.label(job, "mmproj")
    path = expanded(named, label)
    if not path.is_file():
        raise ConfigError(f"{label} = {named!r}: no such file")
    return {"mmproj": path}


def _engine_for(job: Job, stored: StoredModel) -> str:
    """The import string: a model stored for another job runs in the engine of the configured job."""
    return stored.engine if stored.job == job else INFO[job].engine


def _capped(spec: ModelSpec, max_new_tokens: int) -> ModelSpec:
    """The spec with the memory policy's limit of tokens, unless the engine's own table sets one."""
    if not INFO[spec.job].answers:
        return spec
    return dataclasses.replace(spec, options={"max_new_tokens": max_new_tokens, **spec.options})


def _configured(config: Config, spec: ModelSpec) -> Engine:
    """Make a configured engine. Its ConfigError gets the line of the key in models.toml."""
    try:
        return make_engine(_capped(spec, config.memory.max_new_tokens))
    except ConfigError as error:
        raise config.written.located(spec.job, error) if config.written.name else error from None


def build_pool(config: Config, store: Store) -> Pool:
    """All configured engines behind their gates, under one governor. Raises ModelMissing and ConfigError."""
    heap.tune()
    deliveries, roster = Deliveries(), Roster()
    governor = make_governor(
        config.memory,
        peaks=store.root.parent / "memory.json",
        devices=find(catalog.DEVICES),
        allocator=find(catalog.ALLOCATOR)(),
        undelivered=lambda: deliveries.held,
        workers=roster.pids,
    )
    found = list(specs(config, store))
    launchers = _launchers(config, found, roster)

    def host(spec: ModelSpec) -> Host:
        engine = _configured(config, spec)
        if not config.isolated(spec.job):
            return ThreadHost(engine, governor)
        return ProcessHost(engine, launchers[INFO[spec.job].mapped], governor)

    return Pool(
        [host(spec) for spec in found],
        governor,
        queue_limit=config.server.queue_limit,
        pinned={job for job, settings in config.engines.items() if settings.pinned},
        chains=chains(config.engines),
        deliveries=deliveries,
        roster=roster,
    )


def _launchers(config: Config, found: Iterable[ModelSpec], roster: Roster) -> Mapping[bool, Launcher]:
    """The launcher of workers by ``JobInfo.mapped``.

    A worker of a mapped engine starts once and stays. So it is a fresh interpreter: a fork server that stays with it
    would take 8 to 15 MB. The others come and go. Their fork server has imported what they need, and ends when idle.
    """
    modules = {
        spec.engine.partition(":")[0] for spec in found if config.isolated(spec.job) and not INFO[spec.job].mapped
    }
    preload = ("edgeserve.hosts.worker_entry", *sorted(modules))
    return {True: roster.add(Spawner()), False: roster.add(Resting(lambda: make_launcher(preload)))}


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
    """A machine's name with and without its domain. Empty when the name does not fit into a URL."""
    site = read_host(host)
    return {site.name, site.name.partition(".")[0]} if site and not site.is_address else set()


def _files(server: ServerSettings, roster: Roster) -> tuple[SoundFiles, PictureFiles]:
    """Children decode and encode, unless all is to stay in this process."""
    if server.isolation == "thread":
        return SoundFilesHere(), PictureFilesHere()

    def children(*preload: str) -> Children:
        return Children(roster.add(Resting(lambda: make_launcher(preload))))

    pictures = children(apart.CHILD, catalog.PICTURES_LOADED)
    return SoundFilesApart(children(*SHARED)), PictureFilesApart(pictures, catalog.PICTURES)


def build(config: Config, pool: Pool) -> Starlette:
    """The application. Its lifespan starts the governor and the monitor, and closes all engines at the end.

    Raises ConfigError.
    """
    limits, residency = _limits(config.server), config.residency
    idle = IdlePolicy(residency.warm_after, residency.idle_timeout, residency.check_interval)
    sound_files, picture_files = _files(config.server, pool.roster)
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
            await asyncio.to_thread(sound_files.close)
            await asyncio.to_thread(picture_files.close)
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
    application.state.sound_files = sound_files
    application.state.picture_files = picture_files
    application.state.memory_total = lambda: pool.governor.probe.latest().total
    return application
