"""A managed server on fake engines: its settings, its store and its file are the test's."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.gates import FAKES, fake_spec
from support.server import Running, considerate_governor, serving

from edgeserve.config import Config, ServerSettings
from edgeserve.errors import EdgeserveError, ModelMissing
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.manage.manager import Means
from edgeserve.model_settings import ModelSettings, chains
from edgeserve.models.store import Store
from edgeserve.residency.directory import Terms
from edgeserve.residency.host import Host
from edgeserve.residency.pool import Pool

NOWHERE = Path(os.devnull) / "models"
"""The root of a store that is empty and takes nothing."""


def model(job: Any = "llm", name: str = "", **more: Any) -> ModelSettings:
    return ModelSettings(job=job, model=name or f"fake-{job}", **more)


class World:
    """``settings`` is the file that a reload reads, or the error about it. ``files``: files of a model by its id."""

    def __init__(self, settings: Config, store: Store, files: Mapping[str, Path], **options: Any) -> None:
        self.settings: Config | EdgeserveError = settings
        self.store = store
        self.files = files
        self.made: list[str] = []
        self._options = options
        self._governor = considerate_governor()
        self.pool = Pool(
            [host for host, _ in self.make(settings, settings.models).values()],
            self._governor,
            queue_limit=settings.server.queue_limit,
            terms={name: Terms.of(one) for name, one in settings.models.items()},
            chains=chains(settings.models),
        )

    def read(self) -> Config:
        if isinstance(self.settings, EdgeserveError):
            raise self.settings
        return self.settings

    def make(self, config: Config, models: Iterable[str]) -> Mapping[str, tuple[Host, Terms]]:
        chosen = {name: config.models[name] for name in models}
        return {name: (self._host(name, one), Terms.of(one)) for name, one in chosen.items()}

    def _host(self, name: str, settings: ModelSettings) -> Host:
        if settings.model == "missing":
            raise ModelMissing(f"{name} is not on this device")
        self.made.append(name)
        found = fake_spec(settings.job, **self._options, **settings.options)
        files = {"model": self.files[name]} if name in self.files else {}
        spec = dataclasses.replace(found, id=name, name=settings.model if name == settings.job else name, files=files)
        return ThreadHost(FAKES[settings.job](spec), self._governor)

    def rewrite(self, models: Mapping[str, ModelSettings] | None = None, **tables: Any) -> None:
        """Change the file."""
        assert isinstance(self.settings, Config)
        changed = tables if models is None else {**tables, "models": models}
        self.settings = dataclasses.replace(self.settings, **changed)


@contextlib.contextmanager
def managed(
    models: Mapping[str, ModelSettings] | None = None,
    store: Store | None = None,
    *,
    server: Mapping[str, Any] | None = None,
    files: Mapping[str, Path] | None = None,
    **options: Any,
) -> Iterator[tuple[Running, World]]:
    """A served world. ``options`` are those of its engines."""
    given = {"llm": model(), "asr": model("asr")} if models is None else models
    of_server: dict[str, Any] = {"isolation": "thread", "drain_seconds": 5.0, **(server or {})}
    settings = Config(server=ServerSettings(**of_server), models=given)
    world = World(settings, store or Store(NOWHERE), files or {}, **options)
    means, drain = Means(world.store, world.make, world.read), settings.server.drain_seconds
    with serving(world.pool, drain_seconds=drain, config=settings, means=means) as running:
        yield running, world
