"""The routes of settings: show, change, read again."""

from __future__ import annotations

import dataclasses
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api.fields import Fields, kind
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.manage.models import manager_of
from edgeserve.api.schema import Field, Strict
from edgeserve.config import Config
from edgeserve.errors import ConfigError, InvalidRequest, StoreError
from edgeserve.exposure import shown
from edgeserve.jobs import MODELS
from edgeserve.manage.changes import TUNABLE, Changes
from edgeserve.manage.manager import Manager
from edgeserve.manage.patch import NOW

Tables = dict[str, dict[str, Any]]


class Table(Field[dict[str, Any]]):
    """An object of keys and values. The settings' own reader checks them."""

    def __init__(self, words: str) -> None:
        super().__init__(words, {})

    def read(self, fields: Fields, limits: Limits) -> dict[str, Any]:
        value = fields.raw(self.name)
        if not isinstance(value, dict):
            raise fields.error(self.name, f"must be an object of keys and values, not {kind(value)}")
        return value

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "object"}


class SettingsPatch(Strict):
    """The body of PATCH /admin/config: keys to change, by table."""

    server = Table(f"keys of [server]: {', '.join(sorted(TUNABLE['server']))}")
    residency = Table("keys of [residency]")
    memory = Table("keys of [memory]")
    models = Table(f"by id of the model, an object of its keys: {', '.join(sorted(NOW))}")

    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.FIELDS if self.has(name)}


async def show(request: Request) -> Response:
    return JSONResponse(_settings(manager_of(request)))


async def change(request: Request) -> Response:
    """Change keys until the next reload or restart."""
    asked = await read_json(request, SettingsPatch)
    if not (given := asked.given()):
        raise asked.error("server", f"or another table is required: {', '.join(asked.FIELDS)}")
    manager = manager_of(request)
    try:
        found = await manager.change(given)
    except ConfigError as error:
        raise InvalidRequest(error.message, param=error.param) from None
    return JSONResponse(_settings(manager) | {"changed": list(found.changed)})


async def reload(request: Request) -> Response:
    """Read the settings again. A mistake in them changes nothing, and is the client's to mend: 400."""
    manager = manager_of(request)
    try:
        found = await manager.reload()
    except (ConfigError, StoreError) as error:
        raise InvalidRequest(f"nothing was changed: {error.message}", param=error.param) from None
    return JSONResponse(_changes(found, manager))


def _changes(found: Changes, manager: Manager) -> dict[str, Any]:
    return {
        "source": manager.config.source,
        "added": list(found.added),
        "removed": list(found.removed),
        "replaced": list(found.replaced),
        "changed": list(found.changed),
        "needs_restart": list(found.fixed),
        "still_answering": list(manager.moving),
    }


def _settings(manager: Manager) -> dict[str, Any]:
    """The settings in force, without secrets, and the keys that may change."""
    config: Config = manager.config
    tables: Tables = {name: _table(getattr(config, name)) for name in TUNABLE}
    models = {model: _table(one) | {"model": shown(one.model)} for model, one in config.models.items()}
    may_change = {table: sorted(names) for table, names in TUNABLE.items()} | {MODELS: sorted(NOW)}
    return {"source": config.source, **tables, MODELS: models, "may_change": may_change}


def _table(settings: Any) -> dict[str, Any]:
    shown_fields = (one.name for one in dataclasses.fields(settings) if one.repr)  # others are secrets
    values = {name: getattr(settings, name) for name in shown_fields}
    return {name: dict(one) if name == "options" else _plain(one) for name, one in values.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it: a list of tables, such as that of adapters, as a list of objects."""
    if isinstance(value, tuple):
        return [_table(one) if dataclasses.is_dataclass(one) else one for one in value]
    return value
