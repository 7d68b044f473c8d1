"""Settings, read once into frozen dataclasses.

Flags win over variables, variables over models.toml, and models.toml over defaults.

Each key is a field of a dataclass here, of the memory policy, or of an engine's options. The field's metadata names
the variable and the bounds (``edgeserve.settings``). A mistake is one ConfigError with its place.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from edgeserve.device import Device
from edgeserve.errors import ConfigError
from edgeserve.jobs import ALL_JOBS, INFO, PICTURES, STARTER, Job
from edgeserve.memory.policy import MemoryPolicy, read_policy
from edgeserve.settings import ENV_PREFIX, NO_FILE, Reader, Source, key, key_names, shorten

KINDS: tuple[str, ...] = tuple(one.kind for one in INFO.values())
"""Kinds of request, in the words of ``when``."""


Isolation = Literal["auto", "process", "thread"]
"""Home of an engine: a process of its own, or threads of the server."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """[server]"""

    host: str = key("127.0.0.1", env="HOST")
    port: int = key(8080, env="PORT", low=0, high=65_535)
    api_key: str = key("", env="API_KEY", secret=True)
    log_level: str = key("info", env="LOG_LEVEL", choices=("debug", "info", "warning", "error"))
    log_json: bool = key(False, env="LOG_JSON")
    drain_seconds: float = key(10.0, env="DRAIN_SECONDS", low=0)
    queue_limit: int = key(8, env="QUEUE_LIMIT", low=0)
    max_body_mb: int = key(32, env="MAX_BODY_MB", low=1)
    max_json_mb: int = key(16, env="MAX_JSON_MB", low=1)
    body_timeout: float = key(20.0, env="BODY_TIMEOUT", low=1)
    write_timeout: float = key(60.0, env="WRITE_TIMEOUT", low=1)
    max_connections: int = key(512, env="MAX_CONNECTIONS", low=8)
    max_text_chars: int = key(262_144, env="MAX_TEXT_CHARS", low=1)
    max_audio_seconds: float = key(7200.0, env="MAX_AUDIO_SECONDS", low=1)
    live_sessions: int = key(16, env="LIVE_SESSIONS", low=1)
    live_idle_seconds: float = key(60.0, env="LIVE_IDLE_SECONDS", low=1)
    allowed_hosts: tuple[str, ...] = key(())
    cors_origins: tuple[str, ...] = key(())
    remote_images: bool = key(False, env="REMOTE_IMAGES")
    remote_image_hosts: tuple[str, ...] = key(())
    models_dir: str = key("", env="MODELS_DIR")
    states_dir: str = key("", env="STATES_DIR")
    isolation: Isolation = key("auto", env="ISOLATION")


@dataclass(frozen=True, slots=True)
class ResidencySettings:
    """[residency], in seconds"""

    warm_after: float = key(60.0, env="WARM_AFTER", low=0)
    idle_timeout: float = key(300.0, env="IDLE_TIMEOUT", low=0)
    check_interval: float = key(30.0, env="CHECK_INTERVAL", low=0.05)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """[llm], [vision], [asr], [tts], [embedding]: one engine. ``options`` are the engine's own keys."""

    model: str = key("")
    mmproj: str = key("", only=PICTURES)
    device: Device = key("auto")
    threads: int = key(0, low=0, high=512)  # llama.cpp aborts above
    preload: bool = key(False)
    pinned: bool = key(False)
    isolation: Isolation = key("auto")
    """Home of the engine; "auto": as [server] says."""
    when: tuple[str, ...] = key((), choices=KINDS)
    """Kinds of request that load this engine ahead, where it fits."""
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. ``source`` names the file for messages; ``written`` is its text, to find the line of a key."""

    server: ServerSettings = ServerSettings()
    residency: ResidencySettings = ResidencySettings()
    memory: MemoryPolicy = field(default_factory=MemoryPolicy)
    engines: Mapping[Job, EngineSettings] = field(default_factory=dict)
    source: str = "defaults"
    written: Source = NO_FILE

    def isolated(self, job: Job) -> bool:
        """Whether the engine of a job lives in a process of its own."""
        chosen = [one for one in (self.engines[job].isolation, self.server.isolation) if one != "auto"]
        return chosen[0] == "process" if chosen else pays(job)

    def in_file(self, table: Job | Literal["server"], name: str) -> bool:
        """Whether the value of a key comes from the file, and not from a flag, a variable or a default."""
        settings = self.server if table == "server" else self.engines[table]
        return bool(tomllib.loads(self.written.text).get(table, {}).get(name) == getattr(settings, name))

    def label(self, table: Job | Literal["server"], name: str) -> str:
        """A key for messages, with file and line where the file holds its value."""
        return self.written.label(table, name) if self.in_file(table, name) else f"[{table}] {name}"


def pays(job: Job, platform: str = sys.platform) -> bool:
    """Whether "auto" means a process of its own: on Linux, for engines that come and go.

    Their memory returns with the process. One that is mapped at startup stays, and would take 34 MB more. Figures:
    docs/decisions/0019-hosts.md.
    """
    return platform == "linux" and not INFO[job].mapped


ENGINE_VARIABLES: Mapping[str, tuple[Job, str]] = MappingProxyType(
    {one.variable: (job, "model") for job, one in INFO.items()} | {"MMPROJ": ("vision", "mmproj")}
)
"""Variables (and flags of the same name) that set a key of one engine: variable → (job, key)."""

SECTIONS = ("server", "residency", "memory", *ALL_JOBS)


def load(environ: Mapping[str, str], *, path: Path | None = None, flags: Mapping[str, object] | None = None) -> Config:
    """Read the settings. Raises ConfigError.

    Arguments:
        flags  values by the name of their variable without prefix ({"PORT": 9000}); None counts as not given
        path   the file; None: $EDGESERVE_CONFIG, else ./models.toml if it exists
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    path = path or _named(environ) or _beside()
    source, document = _parse(path) if path else (NO_FILE, {})
    reader = Reader(source, environ, given, tables())
    reader.known("", document, SECTIONS)
    for name, table in document.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{source.label(name)} must be a table, not {shorten(table)}")
    engines = {job: _engine(reader, job, document[job]) for job in ALL_JOBS if job in document}
    server = ServerSettings(**reader.read(ServerSettings, "server", document.get("server", {})))
    if not server.api_key.isprintable() or " " in server.api_key:
        label = source.label("server", "api_key")
        raise ConfigError(f"{label}, or its variable: expected visible characters without spaces")
    return Config(
        server=server,
        residency=ResidencySettings(**reader.read(ResidencySettings, "residency", document.get("residency", {}))),
        memory=read_policy(document.get("memory", {}), environ, source, reader.tables),
        engines=_overrides(
            reader, engines if path else {job: EngineSettings(model=model) for job, model in STARTER.items()}
        ),
        source=source.name or "defaults",
        written=source,
    )


def chains(engines: Mapping[Job, EngineSettings]) -> dict[str, tuple[Job, ...]]:
    """Engines to load ahead, by the kind of request that begins."""
    return {kind: tuple(job for job, one in engines.items() if kind in one.when) for kind in KINDS}


def _named(environ: Mapping[str, str]) -> Path | None:
    if not (name := environ.get(ENV_PREFIX + "CONFIG")):
        return None
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # an unknown user's home
        raise ConfigError(f"{ENV_PREFIX}CONFIG = {name!r}: {error}; write the whole path") from None


def _beside() -> Path | None:
    path = Path("models.toml")
    return path if path.is_file() else None


def _parse(path: Path) -> tuple[Source, dict[str, Any]]:
    """Read the file once, so that a pipe will do. A byte order mark is skipped."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        return Source(str(path), text), tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected the server's models.toml") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; expected the server's models.toml") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not valid UTF-8; save the file as UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, numbers of thousands of digits, deep nesting
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def tables() -> dict[str, list[str]]:
    """Names of the known keys, by table."""
    known = {"server": ServerSettings, "residency": ResidencySettings, "memory": MemoryPolicy}
    served = {name: key_names(kind, name) for name, kind in known.items()}
    return served | {job: key_names(EngineSettings, job) + key_names(options_of(job), job) for job in ALL_JOBS}


def options_of(job: Job) -> type[Any]:
    """The dataclass of the keys that belong to the engines of a job."""
    module, _, name = INFO[job].options.partition(":")
    kind: type[Any] = getattr(importlib.import_module(module), name)
    return kind


def _engine(reader: Reader, job: Job, table: dict[str, Any]) -> EngineSettings:
    """Check an engine's table. Its options are kept as written: the engine adds the options of its model."""
    reader.known(job, table, reader.tables[job])
    if not table.get("model"):
        raise ConfigError(f'{reader.source.label(job)} names no model; expected a line such as model = "…"')
    names = key_names(options_of(job), job)
    options = {name: item for name, item in table.items() if name in names}
    reader.values(options_of(job), job, options)
    settings = EngineSettings(**reader.values(EngineSettings, job, table), options=options)
    if INFO[job].kind in settings.when:
        label = f"{reader.source.label(job, 'when')} = {INFO[job].kind!r}"
        raise ConfigError(f"{label}: that request heats [{job}] anyway; name another kind")
    return settings


def _overrides(reader: Reader, engines: dict[Job, EngineSettings]) -> Mapping[Job, EngineSettings]:
    """Apply flags and variables: models, projector, device and preload."""
    for variable, (job, name) in ENGINE_VARIABLES.items():
        if (found := reader.given(variable)) and found[1]:
            base, value = engines.get(job, EngineSettings()), reader.checked(found, EngineSettings, name)
            # Options written for another model do not fit this one.
            options = base.options if name != "model" or base.model == value else {}
            changed: dict[str, Any] = {name: value, "options": options}
            engines[job] = dataclasses.replace(base, **changed)
    if "vision" in engines and not engines["vision"].model:
        label = (reader.given("MMPROJ") or ("mmproj", None))[0]
        raise ConfigError(f"{label} is given without a vision model; name it with --vlm-model")
    if found := reader.given("DEVICE"):
        device = reader.checked(found, EngineSettings, "device")
        engines = {job: dataclasses.replace(one, device=device) for job, one in engines.items()}
    if found := reader.given("PRELOAD"):
        label, preload = found
        jobs = set(engines) if preload == "all" else {name.strip() for name in str(preload).split(",")}
        if not jobs <= set(engines):
            raise ConfigError(f"{label} = {preload!r}: expected all, or a list of {', '.join(engines)}")
        engines = {job: dataclasses.replace(one, preload=job in jobs) for job, one in engines.items()}
    return MappingProxyType(engines)
