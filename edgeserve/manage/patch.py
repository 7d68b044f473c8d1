"""Settings with some keys changed by a request: checked as the file is, and only keys that may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from edgeserve.config import Config, tables
from edgeserve.errors import ConfigError
from edgeserve.jobs import MODELS, table_of
from edgeserve.manage.changes import OF_MODELS, TUNABLE
from edgeserve.memory.policy import read_policy
from edgeserve.model_settings import ModelSettings, check_names, checked
from edgeserve.settings import Reader, suggestion

NOW = OF_MODELS - {"preload"}
"""Keys of a model that a request may change; ``preload`` says something about a start only."""


def patched(config: Config, given: Mapping[str, Any]) -> Config:
    """The settings with the given values, by table and key. Raises ConfigError with the key as ``param``."""
    reader = Reader(tables=tables())
    found: dict[str, Any] = {}
    for table, values in given.items():
        _check_table(table, values)
        if table == MODELS:
            found["models"] = _models(reader, config, values)
            continue
        old = getattr(config, table)
        _check_keys(table, values, TUNABLE[table], {one.name for one in dataclasses.fields(old)})
        if table == "memory":
            found[table] = read_policy({**dataclasses.asdict(old), **values}, {}, reader.source, reader.tables)
        else:
            found[table] = dataclasses.replace(old, **reader.read(type(old), table, values))
    return dataclasses.replace(config, **found)


def _models(reader: Reader, config: Config, given: Mapping[str, Any]) -> Mapping[str, ModelSettings]:
    models = dict(config.models)
    for model, values in given.items():
        if model not in models:
            known = ", ".join(models) or "none"
            raise ConfigError(f"models.{model[:120]}: there is no such model; models: {known}", param=MODELS)
        if not isinstance(values, Mapping):
            raise ConfigError(f"models.{model} must be an object of keys and values", param=MODELS)
        old = models[model]
        _check_keys(table_of(model), values, NOW, set(tables()[old.job]))
        new = dataclasses.replace(old, **reader.values(ModelSettings, table_of(model), values, old.job))
        models[model] = checked(reader, model, new)
    check_names(reader, models)
    return models


def _check_table(table: str, values: object) -> None:
    if table not in (*TUNABLE, MODELS):
        known = ", ".join((*TUNABLE, MODELS))
        raise ConfigError(f"{table[:120]!r} is no table of the settings that can change; tables: {known}", param=table)
    if not isinstance(values, Mapping):
        raise ConfigError(f"{table} must be an object of keys and values", param=table)


def _check_keys(table: str, values: Mapping[str, Any], may: frozenset[str], known: set[str]) -> None:
    """Raises ConfigError for a key that does not exist, and for one that a running server does not change."""
    for key in values:
        param = f"{table}.{key}"
        if key not in known:
            hint = suggestion(table, key, {table: sorted(known)})
            raise ConfigError(f"[{table}] {key[:120]} is not a known setting; {hint}", param=param[:200])
        if key not in may:
            way = "the server reads it at its start" if table in TUNABLE else "write it into the file, and reload"
            raise ConfigError(
                f"[{table}] {key} does not change by a request: {way}; keys that do: {', '.join(sorted(may))}",
                param=param,
            )
