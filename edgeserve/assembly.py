"""Engines, their hosts and their pool, made from the settings and the stored models."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence, Set

from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.engine import Engine, ModelSpec
from edgeserve.errors import ConfigError, ModelMissing, ModelUnknown, StoreError
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import ALL_JOBS, INFO, Job, table_of
from edgeserve.memory.governor import Governor, make_governor
from edgeserve.model_settings import ModelSettings, chains
from edgeserve.models import catalog
from edgeserve.models.store import Store
from edgeserve.named import find, make_engine
from edgeserve.processes.launcher import Launcher, make_launcher
from edgeserve.processes.resting import IDLE_SECONDS, Resting
from edgeserve.processes.roster import Roster
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.directory import Terms
from edgeserve.residency.host import Host
from edgeserve.residency.mailbox import Deliveries
from edgeserve.residency.pool import Pool
from edgeserve.specification import spec, specs
from edgeserve.system import heap

log = logging.getLogger("edgeserve.app")


def build_pool(config: Config, store: Store) -> Pool:
    """All configured models behind their gates, under one governor. Raises ModelMissing and ConfigError."""
    return assemble(config, store)[0]


def assemble(config: Config, store: Store) -> tuple[Pool, Assembly]:
    """The pool as ``build_pool``, and the maker of its hosts."""
    heap.tune()
    on_demand = config.server.serve == "stored"
    if on_demand:
        for one in INFO.values():  # now: during a request it would hold up all others, for 0.1 s
            find(one.engine)
    deliveries, roster = Deliveries(), Roster()
    governor = make_governor(
        config.memory,
        peaks=store.root.parent / "memory.json",
        devices=find(catalog.DEVICES),
        allocator=find(catalog.ALLOCATOR)(),
        undelivered=lambda: deliveries.held,
        workers=roster.pids,
        helpers=roster.helpers,
        end_helper=roster.end_largest_helper,
    )
    deliveries.fit(governor.probe.machine())
    modules: set[str] = set()
    assembly = Assembly(config, store, governor, _launchers(config, modules, roster), modules)
    try:
        made = assembly.hosts(config, config.models)
    except ModelUnknown as error:
        raise ConfigError(error.message, param=error.param) from None
    pool = Pool(
        [host for host, _ in made.values()],
        governor,
        queue_limit=config.server.queue_limit,
        terms={model: terms for model, (_, terms) in made.items()},
        chains=chains(config.models),
        on_demand=assembly.on_demand if on_demand else None,
        stand_ins=config.server.stand_ins,
        deliveries=deliveries,
        roster=roster,
    )
    return pool, assembly


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes hosts.

    Fields:
        launchers  of workers, by ``JobInfo.mapped``
        modules    of engines that come and go in processes of their own; the next fork server imports them
    """

    config: Config
    store: Store
    governor: Governor
    launchers: Mapping[bool, Launcher]
    modules: set[str]

    def hosts(self, config: Config, models: Iterable[str]) -> dict[str, tuple[Host, Terms]]:
        """Hosts and terms of some models as these settings serve them, by id. Reads the disk.

        Raises ModelMissing and its kin with the commands that fetch what is missing, and ConfigError.
        """
        wanted = list(models)
        configured = {model: config.models[model] for model in wanted if model in config.models}
        maker = dataclasses.replace(self, config=config)
        found = specs(dataclasses.replace(config, models=configured), self.store)
        made = {one.id: (maker.host(one, configured[one.id]), Terms.of(configured[one.id])) for one in found}
        for model in wanted:
            if model not in made:
                if (on_demand := maker.on_demand(model, ALL_JOBS)) is None:
                    raise ModelMissing(f"{model} is not on this device any more; pull it again", param="model")
                made[model] = on_demand
        return made

    def host(self, spec: ModelSpec, settings: ModelSettings) -> Host:
        """The host of a model, cold. Raises ConfigError."""
        engine = self._engine(spec)
        if not self.config.isolated(settings):
            return ThreadHost(engine, self.governor)
        if not INFO[spec.job].mapped:
            self.modules.add(spec.engine.partition(":")[0])
        return ProcessHost(engine, self.launchers[INFO[spec.job].mapped], self.governor)

    def on_demand(self, name: str, jobs: Sequence[Job]) -> tuple[Host, Terms] | None:
        """Host and terms of a pulled model that no table of models.toml names.

        None: no model of this name was pulled, it does none of these jobs, or it cannot be used as it is.
        A model that has the name of a job is none either: the job's own model has that id.
        """
        try:
            stored = self.store.pulled(name)
        except StoreError:
            return None
        job = next((job for job in jobs if job == stored.job), None)
        if job is None or stored.name in ALL_JOBS:
            return None
        settings = ModelSettings(job=job, model=stored.name)
        try:
            host = self.host(spec(self.config, self.store, stored.name, settings, stored), settings)
        except ConfigError as error:  # an option of its manifest, or a file that it lacks
            log.warning("%s cannot be served on demand: %s", stored.name, error.message)
            return None
        return host, dataclasses.replace(Terms.of(settings), by_name=True)

    def _engine(self, spec: ModelSpec) -> Engine:
        """The engine of a model. Its ConfigError gets the line of the key in models.toml."""
        written = self.config.written
        try:
            return make_engine(_capped(spec, self.config.memory.max_new_tokens))
        except ConfigError as error:
            raise written.located(table_of(spec.id), error) if written.name else error from None


def _capped(spec: ModelSpec, max_new_tokens: int) -> ModelSpec:
    """The spec with the memory policy's limit of tokens, unless the engine's own table sets one."""
    if not INFO[spec.job].answers:
        return spec
    return dataclasses.replace(spec, options={"max_new_tokens": max_new_tokens, **spec.options})


def _launchers(config: Config, modules: Set[str], roster: Roster) -> Mapping[bool, Launcher]:
    """The launcher of workers by ``JobInfo.mapped``. ``modules`` as in ``Assembly``.

    A worker of a mapped engine starts once and stays. So it is a fresh interpreter: a fork server that stays with it
    would take 8 to 15 MB. The others come and go. Their fork server has imported what they need, and ends when idle.
    """

    def fork_server() -> Launcher:
        return make_launcher(("edgeserve.hosts.worker_entry", *sorted(modules)))

    forks = Resting(fork_server, idle_seconds=rests_after(config))
    return {True: roster.add(Spawner()), False: roster.add(forks)}


def rests_after(config: Config) -> float:
    """Idle seconds of a fork server: it is one more part of the server that gives its memory back when nobody asks."""
    return min(IDLE_SECONDS, config.residency.warm_after)
