"""The models and settings of a running server: reload, change, load, unload, remove. Nobody's answer is cut."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from edgeserve import logs
from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.errors import ConfigError, EdgeserveError, InUse, ModelMissing, NotFound
from edgeserve.jobs import INFO, table_of
from edgeserve.manage.changes import Changes, changes, effective
from edgeserve.manage.patch import patched
from edgeserve.model_settings import chains
from edgeserve.models.store import Store
from edgeserve.residency.aside import Aside
from edgeserve.residency.directory import Terms, not_configured
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import Host
from edgeserve.residency.monitor import IdlePolicy, Monitor
from edgeserve.residency.pool import Pool

log = logging.getLogger("edgeserve.manage")

Make = Callable[[Config, Iterable[str]], Mapping[str, tuple[Host, Terms]]]
"""Makes hosts and terms of some models of these settings, by id; reads the disk. Raises ConfigError, StoreError."""
PATIENCE_SECONDS = 5.0
"""Time that a reload waits for models to end their answers before it is answered; they end in any case."""


@dataclass(frozen=True, slots=True)
class Means:
    """The means to change a server.

    Fields:
        store  the models on this device
        make   makes hosts
        read   reads the settings again, from where they came. Raises ConfigError
    """

    store: Store
    make: Make
    read: Callable[[], Config]

    @classmethod
    def none(cls, config: Config) -> Means:
        """The means of a server whose models stay as they are, over a store that is empty and takes nothing."""

        def make(config: Config, models: Iterable[str]) -> Mapping[str, tuple[Host, Terms]]:
            return {}

        return cls(Store(Path(os.devnull) / "models"), make, lambda: config)


class Manager:
    """Changes one at a time, on the event loop's thread. ``config``: the settings in force now."""

    def __init__(self, config: Config, pool: Pool, monitor: Monitor, means: Means) -> None:
        self.config = config
        self.store = means.store
        self._pool = pool
        self._monitor = monitor
        self._make = means.make
        self._read = means.read
        self._aside = Aside("changes of the server", threads=2)
        self._maps = Aside("models that are mapped", threads=4)  # each may wait for a request that loads the model
        self._one = asyncio.Lock()
        self._moves: dict[str, asyncio.Task[None]] = {}
        self._renewals: dict[str, asyncio.Task[None]] = {}
        self._wanted = False
        self._reloading: asyncio.Task[None] | None = None
        pool.renew = self.renew

    async def reload(self) -> Changes:
        """Read the settings again and change only what changed.

        Raises ConfigError and StoreError; nothing changes then. Models that are removed or replaced end their answers
        first. Values of ``change`` return to the file.
        """
        async with self._one:
            new = await self._aside.run(self._read)
            if self.config.written.name and not new.written.name:
                raise ConfigError(f"{self.config.source} is gone: put it back, and reload again")
            found = changes(self.config, new)
            now = effective(self.config, new)
            hosts = await self._aside.run(self._make, now, [*found.added, *found.replaced])
            # From here on nothing fails.
            self._apply(now, found)
            moves = [self._then(model, self._pool.remove(model)) for model in found.removed]
            moves += [self._then(model, self._enter(host, terms)) for model, (host, terms) in hosts.items()]
        if moves:
            await asyncio.wait(moves, timeout=PATIENCE_SECONDS)
        _report(found, self.config.source)
        return found

    def reload_soon(self) -> None:
        """Reload in the background, and log a mistake. Calls during a reload count as one more reload."""
        self._wanted = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload_wanted())

    async def _reload_wanted(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                await self.reload()
            except EdgeserveError as error:
                log.error("the settings are not read again, and nothing was changed: %s", error.message)

    async def change(self, given: Mapping[str, Any]) -> Changes:
        """Change keys until the next reload or restart. Raises ConfigError, which names the key; nothing changes then.

        ``given``: values by table and key; those of models by id, in the table "models".
        """
        async with self._one:
            new = await self._aside.run(patched, self.config, given)  # a list may have 130,000 items
            found = changes(self.config, new)
            self._apply(new, found)
        _report(found, "a request")
        return found

    def _apply(self, new: Config, found: Changes) -> None:
        """Let the settings hold, less the models that come and go."""
        logs.set_level(new.server.log_level)
        self._pool.queue_limit = new.server.queue_limit
        self._pool.governor.follow(new.memory)
        self._monitor.policy = idle_policy(new)
        for model in found.tuned:
            if model in self._pool.gates:
                self._pool.tune(model, Terms.of(new.models[model]))
        self._pool.ahead.chains = chains(new.models)
        self._pool.arrange(tuple(new.models))
        self._pool.idle.set()
        self.config = new

    # Models that come and go

    async def renew(self, model: str) -> None:
        """Replace a model whose files have changed on the disk. Calls that come meanwhile share one replacement.

        Raises StoreError, ConfigError, and NotConfigured for a model that a reload removes meanwhile.
        """
        task = self._renewals.get(model)
        if task is None:
            task = self._renewals[model] = asyncio.create_task(self._renew(model))
            task.add_done_callback(lambda ended: (self._renewals.pop(model), ended.cancelled() or ended.exception()))
        await asyncio.shield(task)

    async def _renew(self, model: str) -> None:
        while True:
            config = self.config
            host, terms = (await self._aside.run(self._make, config, [model]))[model]
            if self.config is config:
                break
            await asyncio.to_thread(host.stop)  # the settings changed while the disk was read
            if model in config.models and model not in self.config.models:
                raise not_configured(model)
        log.info("%s: its files have changed on the disk; it is opened anew", model)
        await self._then(model, self._enter(host, terms, renewed=True))

    async def _enter(self, host: Host, terms: Terms, *, renewed: bool = False) -> None:
        """Let an engine take its place, or the place of another one. ``renewed``: only the place of another one."""
        model = host.spec.id
        if model in self._pool.gates:
            await self._pool.replace(host, terms)
        elif self._pool.ending or renewed:
            await asyncio.to_thread(host.stop)
            return
        else:
            self._pool.add(host, terms)
        settings = self.config.models.get(model)
        if settings is not None:  # a request may have changed them while the engine waited for its place
            self._pool.tune(model, Terms.of(settings))
        self._pool.arrange(tuple(self.config.models))
        if settings is not None and settings.preload:
            await self._pool.preload([model])
        elif INFO[host.spec.job].mapped:
            await self._maps.run(self._pool.gates[model].map)

    def _then(self, model: str, move: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do a move of a model after its moves under way: two engines of one model would share one account."""
        before = self._moves.get(model)

        async def done() -> None:
            if before is not None:
                await asyncio.wait([before])
            try:
                await move
            except EdgeserveError as error:
                log.warning("%s: %s", model, error.message)

        task = self._moves[model] = asyncio.create_task(done())
        task.add_done_callback(lambda ended: self._moves.pop(model) if self._moves.get(model) is ended else None)
        return task

    @property
    def moving(self) -> tuple[str, ...]:
        """Models that have answers to end before they are removed or replaced."""
        return tuple(self._moves)

    async def stop(self) -> None:
        """Wait for the reload and the moves under way. The pool has ended its answers."""
        tasks = [*self._moves.values(), *([self._reloading] if self._reloading else [])]
        if tasks:
            await asyncio.wait(tasks)

    # Models by hand

    async def load(self, model: str, to: Rung) -> Rung:
        """Bring a model up to warm or hot, never down. Raises DoesNotFit, Busy and EngineFailure."""
        if to is Rung.HOT:
            await self._pool.preload([model])
        elif self._pool.rung(model) < to:
            gate = self._pool.gates[model]
            if INFO[gate.spec.job].mapped:
                await self._maps.run(gate.map)
            else:  # its runtime opens it only as a whole
                await self._pool.preload([model])
                await self._pool.evict(model, to)
        return self._pool.rung(model)

    async def unload(self, model: str, to: Rung) -> Rung:
        """Let a model step down to warm or cold. Raises Busy while requests hold it."""
        if not await self._pool.evict(model, to):
            raise self._pool.in_use(model)
        return self._pool.rung(model)

    async def remove(self, name: str) -> str:
        """Delete a stored model; returns its name. Raises InUse, NotFound and StoreError."""
        try:
            return await self._remove(name)
        except ModelMissing:
            text = f"no model {name[:200]!r} is on this device; `edgeserve list` shows those that are"
            raise NotFound(text, param="model") from None

    async def _remove(self, name: str) -> str:
        folder = await self._aside.run(self.store.folder, name)
        path = self.store.root / folder
        gates = self._users(path)
        if tables := [f"[{table_of(gate.id)}]" for gate in gates if gate.id in self.config.models]:
            users, source = " and ".join(dict.fromkeys(tables)), self.config.source
            raise InUse(f"{folder} is used by {users}: take that out of {source} and reload, then remove {folder}")
        for gate in gates:
            if gate.leases or gate in self._pool.leaving:
                raise InUse(f"{folder} is answering a request; try again when it has ended")
            await self._then(gate.id, self._pool.remove(gate.id))
        await self._aside.run(self.store.remove, folder)
        for gate in self._users(path):  # a request asked for it before its files were gone
            if gate not in self._pool.leaving:
                self._then(gate.id, self._pool.remove(gate.id))
        log.info("%s: removed", folder)
        return folder

    def _users(self, folder: Path) -> list[Gate]:
        """Gates of models with files in a folder, those that leave included."""
        gates = (*self._pool.gates.values(), *self._pool.leaving)
        return [one for one in gates if any(file.is_relative_to(folder) for file in one.spec.files.values())]

    def folders(self) -> set[str]:
        """Folders of the store with files of the models that are here, those that leave included."""
        gates = (*self._pool.gates.values(), *self._pool.leaving)
        files = {file for gate in gates for file in gate.spec.files.values()}
        return {file.relative_to(self.store.root).parts[0] for file in files if file.is_relative_to(self.store.root)}


def idle_policy(config: Config) -> IdlePolicy:
    found = config.residency
    return IdlePolicy(found.warm_after, found.idle_timeout, found.check_interval)


def _report(found: Changes, source: str) -> None:
    for field in dataclasses.fields(found):
        if names := getattr(found, field.name):
            words = "needs a restart" if field.name == "fixed" else field.name
            log.info("settings of %s: %s: %s", source, words, ", ".join(names))
    if not found:
        log.info("settings of %s: nothing to change", source)
