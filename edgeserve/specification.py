"""Specifications of models, from the settings and the store."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgeserve import exposure
from edgeserve.config import Config, tables
from edgeserve.conversations import STATES
from edgeserve.engine import Adapter, ModelSpec
from edgeserve.errors import ConfigError
from edgeserve.fit import tuned
from edgeserve.jobs import INFO, NODES, PICTURES, Job, table_of
from edgeserve.missing import find_all
from edgeserve.model_settings import ModelSettings
from edgeserve.models.folder import expanded
from edgeserve.models.needs import command, packages
from edgeserve.models.store import Store, StoredModel

log = logging.getLogger("edgeserve.app")


def specs(config: Config, store: Store) -> Iterator[ModelSpec]:
    """The configured models with their files. Raises ModelMissing with the commands that fetch what is missing."""
    found = find_all(config, store)
    for model, settings in config.models.items():
        stored = found[model]
        if lacking := store.needed(settings.model):
            log.warning("%s runs only with %s: %s", stored.name, packages(lacking), command(lacking))
        for companion in missing_companions(settings, stored):
            log.warning("%s runs without %s, slower and less exact: edgeserve pull %s", model, companion, companion)
        yield spec(config, store, model, settings, stored)


def missing_companions(settings: ModelSettings, stored: StoredModel) -> tuple[str, ...]:
    """Catalogue models that this one should have beside it, but that are not here."""
    companions = INFO[settings.job].companions if settings.options.get("vad", True) else {}
    return tuple(name for role, name in companions.items() if role not in stored.files)


def spec(config: Config, store: Store, model: str, settings: ModelSettings, stored: StoredModel) -> ModelSpec:
    """The stored model as these settings serve it under the id ``model``.

    Raises ConfigError where the stored model does not do the job, or lacks its projector.
    """
    job, shown = settings.job, exposure.shown(settings.model)
    if stored.job != job and stored.job not in INFO[job].also_runs:
        table = "" if model == job else f': set job = "{stored.job}"'
        raise ConfigError(
            f"{config.label(table_of(model), 'model')} = {shown!r} is made for {stored.job}, not {job}{table}"
        )
    adapters = tuple(_adapters(config, model, settings))
    files = {**stored.files, **_projector(config, model, settings), **{one.role: path for one, path in adapters}}
    files |= _draft(config, store, model, settings)
    if job in PICTURES and "mmproj" not in files:
        raise ConfigError(f'{config.label(table_of(model), "model")} = {shown!r} needs its projector: mmproj = "…"')
    options = _with_states({**_options_of(stored, job), **settings.options}, config, store, job)
    threads, engine = settings.threads, _engine_for(job, stored)
    if "repack" in tables()[job] and engine == INFO[job].engine and "model" in files:  # encoders have no such settings
        # The record is one of the files: an engine that was made before the record changed is made anew.
        files[tuned.ROLE] = tuned.path_of(store.root, stored.name)
        if found := tuned.read(files[tuned.ROLE], files["model"]):
            options = {**options, tuned.ROLE: dict(found.best)}
            threads = threads or int(found.best.get("threads", 0))
    return ModelSpec(
        job=job,
        name=stored.name if model == job else model,
        engine=INFO[job].split if options.get(NODES) else engine,
        files=files,
        device=settings.device,
        threads=threads or None,
        options=options,
        id=model,
        adapters=tuple(one for one, _ in adapters),
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


def _projector(config: Config, model: str, settings: ModelSettings) -> Mapping[str, Path]:
    """The projector that the settings name. Raises ConfigError when the file does not exist."""
    if settings.job not in PICTURES or not (named := settings.mmproj):
        return {}
    label = config.label(table_of(model), "mmproj")
    path = expanded(named, label)
    if not path.is_file():
        raise ConfigError(f"{label} = {named!r}: no such file")
    return {"mmproj": path}


def _draft(config: Config, store: Store, model: str, settings: ModelSettings) -> Mapping[str, Path]:
    """The file of the draft model. Raises StoreError, and ConfigError for a model of another kind."""
    if not settings.draft:
        return {}
    stored = store.find(settings.draft)
    if stored.job != settings.job or "model" not in stored.files:
        label = config.label(table_of(model), "draft")
        raise ConfigError(
            f"{label} = {exposure.shown(settings.draft)!r} is made for {stored.job}; expected a GGUF chat model"
        )
    return {"draft": stored.files["model"]}


def _adapters(config: Config, model: str, settings: ModelSettings) -> Iterator[tuple[Adapter, Path]]:
    """The adapters of a model, and their files. Raises ConfigError when a file does not exist."""
    label = config.written.label(table_of(model), "adapters")  # no flag or variable sets them
    for number, one in enumerate(settings.adapters):
        path = expanded(one.path, label)
        if not path.is_file():
            raise ConfigError(f"{label}: path = {one.path!r}: no such file")
        yield Adapter(f"adapter{number}", one.scale, one.name), path


def _engine_for(job: Job, stored: StoredModel) -> str:
    """The import string: a model stored for another job runs in the engine of the configured job."""
    return stored.engine if stored.job == job else INFO[job].engine
