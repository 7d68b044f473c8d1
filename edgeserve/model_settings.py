"""The settings of one model: its table in models.toml, [llm] to [rerank] or [models.NAME], read and checked."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from edgeserve.dataclass import dataclass
from edgeserve.device import Device
from edgeserve.duration import read_duration
from edgeserve.errors import ConfigError
from edgeserve.jobs import ALL_JOBS, CHAT, INFO, MODELS, PICTURES, STARTER, Job, table_of
from edgeserve.setting_values import shorten
from edgeserve.settings import Reader, key, key_names

KINDS: tuple[str, ...] = tuple(one.kind for one in INFO.values())
"""Kinds of request, in the words of ``when``."""


Isolation = Literal["auto", "process", "thread"]
"""Home of an engine: a process of its own, or threads of the server."""


ADAPTER_WORDS = 'a list of tables such as {path = "style.gguf", scale = 1.0, name = "style"}'


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """One of ``adapters``: a LoRA adapter as a GGUF file. Without a name, every answer uses it."""

    path: str = key("")
    scale: float = key(1.0, low=-100, high=100)
    name: str = key("")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """[llm], [vision], [asr], [tts], [embedding], [rerank], or [models.NAME]: one model.

    ``options`` are the keys of its engine.
    """

    job: Job = key("llm", only=(MODELS,))
    model: str = key("")
    aliases: tuple[str, ...] = key(())
    """Further names in requests; ``*`` and ``?`` stand for any characters."""
    default: bool = key(False)
    """Serves the requests of its job that name no model."""
    keep_alive: str = key("", words='a duration such as "90s", "5m" or "1h", or "-1" for a model that stays')
    mmproj: str = key("", only=PICTURES)
    draft: str = key("", only=("llm",))
    """A smaller model of the same vocabulary, which guesses the next tokens."""
    adapters: tuple[AdapterSettings, ...] = key((), only=CHAT)
    """LoRA adapters."""
    device: Device = key("auto")
    threads: int = key(0, low=0, high=512)  # llama.cpp aborts above
    preload: bool = key(False)
    pinned: bool = key(False)
    isolation: Isolation = key("auto")
    """Home of the engine; "auto": as [server] says."""
    when: tuple[str, ...] = key((), choices=KINDS)
    """Kinds of request that load this engine ahead, where it fits."""
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def named(self) -> tuple[str, ...]:
        """The models that must be on this device."""
        return (self.model, self.draft) if self.draft else (self.model,)

    @property
    def idle_seconds(self) -> float | None:
        """``keep_alive`` in seconds; infinite: the model stays. None: as [residency] says."""
        return read_duration(self.keep_alive) if self.keep_alive else None


def pays(job: Job, platform: str = sys.platform) -> bool:
    """Whether "auto" means a process of its own: on Linux, for engines that come and go.

    Their memory returns with the process. One that is mapped at startup stays, and would take 34 MB more. Figures:
    docs/decisions/0019-hosts.md.
    """
    return platform == "linux" and not INFO[job].mapped


def starter() -> dict[str, ModelSettings]:
    """The models of a server without a models.toml."""
    return {job: ModelSettings(job, model) for job, model in STARTER.items()}


def chains(models: Mapping[str, ModelSettings]) -> dict[str, tuple[str, ...]]:
    """Ids of the models to load ahead, by the kind of request that begins."""
    return {kind: tuple(model for model, one in models.items() if kind in one.when) for kind in KINDS}


def options_of(job: Job) -> type[Any]:
    """The dataclass of the keys that belong to the engines of a job."""
    module, _, name = INFO[job].options.partition(":")
    kind: type[Any] = getattr(importlib.import_module(module), name)
    return kind


def read_models(reader: Reader, document: Mapping[str, Any]) -> Iterator[tuple[str, ModelSettings]]:
    """The models of a document by id: the job for its own table, NAME for [models.NAME]. Raises ConfigError."""
    for job in ALL_JOBS:
        if job in document:
            yield job, _read(reader, job, document[job])
    names: dict[str, str] = {}
    for name, written in document.get(MODELS, {}).items():
        if (other := names.setdefault(name.lower(), name)) != name:
            label = reader.source.label(table_of(name))
            raise ConfigError(f"{label}: [{table_of(other)}] has this name already; capitals make no difference")
        yield name, _named_model(reader, name, written)


def _read(reader: Reader, model: str, written: Mapping[str, Any], job: Job | None = None) -> ModelSettings:
    """Check the table of a model. Its options are kept as written: the engine adds the options of its model.

    ``job``: of a table that is not named by its job. Raises ConfigError.
    """
    table, like = table_of(model), job or _job_named(model)
    reader.known(table, written, reader.tables[like] if job is None else [*reader.tables[like], "job"])
    if not written.get("model"):
        raise ConfigError(f'{reader.source.label(table)} names no model; expected a line such as model = "…"')
    names = key_names(options_of(like), like)
    options = {name: item for name, item in written.items() if name in names}
    reader.values(options_of(like), table, options, like)
    values = reader.values(ModelSettings, table, written, like)
    return checked(reader, model, ModelSettings(**{**values, "job": like, "options": options}))


def checked(reader: Reader, model: str, settings: ModelSettings) -> ModelSettings:
    """The settings. Raises ConfigError for values that only together, or by their syntax, are wrong."""
    table = table_of(model)
    if settings.keep_alive and settings.idle_seconds is None:
        label = f"{reader.source.label(table, 'keep_alive')} = {shorten(settings.keep_alive)}"
        words = 'expected a duration such as "90s", "5m" or "1h", or "-1" to stay'
        raise ConfigError(f"{label}: {words}", param="keep_alive")
    _check_aliases(reader, table, settings.aliases)
    _check_adapters(reader, table, settings)
    if INFO[settings.job].kind in settings.when and model == settings.job:
        label = f"{reader.source.label(table, 'when')} = {INFO[settings.job].kind!r}"
        raise ConfigError(f"{label}: that request heats [{table}] anyway; name another kind", param="when")
    return settings


MOST_ALIASES, LONGEST_ALIAS = 64, 120
"""Aliases of one model, and characters of each: the event loop compares the name in each request with all of them."""


def _check_aliases(reader: Reader, table: str, aliases: tuple[str, ...]) -> None:
    """Raises ConfigError for too many aliases, and for one that is too long."""
    label = reader.source.label(table, "aliases")
    if len(aliases) > MOST_ALIASES:
        raise ConfigError(f"{label}: {len(aliases)} names; a model may have {MOST_ALIASES}", param="aliases")
    for one in aliases:
        if len(one) > LONGEST_ALIAS:
            text = f"{shorten(one)} has {len(one)} characters; a name may have {LONGEST_ALIAS}"
            raise ConfigError(f"{label}: {text}", param="aliases")


def _check_adapters(reader: Reader, table: str, settings: ModelSettings) -> None:
    """Raises ConfigError for an adapter without a path, an unfit name, and two adapters of one name."""
    names: set[str] = set()
    for number, one in enumerate(settings.adapters, start=1):
        label = f"{reader.source.label(table, 'adapters')}: adapter {number}"
        if not one.path:
            raise ConfigError(f"{label} has no path; expected {ADAPTER_WORDS}", param="adapters")
        if one.name and not NAME.fullmatch(one.name):
            text = "a name has 1 to 120 letters, digits and . _ : / @ + -, no others"
            raise ConfigError(f"{label} is named {shorten(one.name)}; {text}", param="adapters")
        if one.name.lower() in names:
            raise ConfigError(f"{label} has the name of another one, {one.name!r}", param="adapters")
        names.update(filter(None, [one.name.lower()]))


def _job_named(model: str) -> Job:
    return next(job for job in ALL_JOBS if job == model)


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,119}")
"""Names of [models.NAME]: clients put them into requests and addresses."""


RESERVED = ("server", "residency", "memory", MODELS)


def _named_model(reader: Reader, name: str, written: Any) -> ModelSettings:
    """Check a table [models.NAME]. Raises ConfigError."""
    label = reader.source.label(f"{MODELS}.{name}")
    if not isinstance(written, dict):
        raise ConfigError(f"{reader.source.label(MODELS, name)} must be a table, not {shorten(written)}")
    if not NAME.fullmatch(name):
        raise ConfigError(f"{label}: a model's name has 1 to 120 letters, digits and . _ : / @ + -, no others")
    if (own := name.lower()) in ALL_JOBS:
        raise ConfigError(f"{label}: the table of this model is [{own}]; choose another name")
    if own in RESERVED:
        raise ConfigError(f"{label}: [{own}] is a table of the server; choose another name")
    job = written.get("job", "llm")
    reader.checked((reader.source.label(table_of(name), "job"), job), ModelSettings, "job")
    _check_keys(reader, name, written, job)
    return _read(reader, name, written, job)


def _check_keys(reader: Reader, name: str, written: Mapping[str, Any], job: Job) -> None:
    """Raises ConfigError for a key that models of other jobs have: most often ``job`` was forgotten or is wrong."""
    for one in written:
        others = [other for other in ALL_JOBS if one in reader.tables[other]]
        if others and job not in others:
            label = reader.source.label(table_of(name), one)
            words = " or ".join(f'job = "{other}"' for other in others)
            raise ConfigError(
                f"{label} is no key of a model with job = {job!r}: take it out, or set {words}", param=one
            )


def check_names(reader: Reader, models: Mapping[str, ModelSettings]) -> None:
    """Raises ConfigError for an alias that means another model already, and for a second default of a job."""
    for place, (model, settings) in enumerate(models.items()):
        others = [(other, one, number < place) for number, (other, one) in enumerate(models.items()) if other != model]
        for other, one, earlier in others:
            if settings.default and one.default and one.job == settings.job and earlier:
                label = reader.source.label(table_of(model), "default")
                raise ConfigError(f"{label}: the default of {one.job} is [{table_of(other)}] already")
            for alias in settings.aliases:
                if owned := _owned(alias.lower(), settings.job, other, one, earlier):
                    label = reader.source.label(table_of(model), "aliases")
                    raise ConfigError(f"{label}: {owned}; choose another alias", param="aliases")


def _owned(alias: str, job: Job, other: str, settings: ModelSettings, earlier: bool) -> str:
    """The reason why the table ``other`` has the alias of a model of ``job``; empty where it does not have it.

    Names of tables are names for every request. Models of different jobs may share other names: the route chooses. Of
    two equal aliases the later one is the mistake.
    """
    table = f"[{table_of(other)}]"
    if alias == other.lower():
        return f"{alias!r} is the name of {table}"
    if job != settings.job:
        return ""
    if alias == settings.model.lower():
        return f"{alias!r} is the model of {table}, and means that"
    taken = earlier and alias in (one.lower() for one in settings.aliases)
    return f"the alias {alias!r} of {job} is {table} already" if taken else ""
