"""Settings, read once into frozen dataclasses.

Flags win over variables, variables over models.toml, and models.toml over defaults.

Each key is a field of a dataclass here, of the memory policy, or of an engine's options. The field's metadata names
the variable and the bounds (``edgeserve.settings``). A mistake is one ConfigError with its place.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from edgeserve.clients import LOOPBACK, client_of
from edgeserve.credentials import with_credentials
from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError
from edgeserve.jobs import ALL_JOBS, INFO, MODELS, NODES, Job
from edgeserve.memory.policy import MemoryPolicy, read_policy
from edgeserve.model_settings import Isolation, ModelSettings, check_names, options_of, pays, read_models, starter
from edgeserve.setting_values import shorten
from edgeserve.settings import ENV_PREFIX, NO_FILE, Reader, Source, inner, key, key_names


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """[server]"""

    host: str = key("127.0.0.1", env="HOST")
    port: int = key(8080, env="PORT", low=0, high=65_535)
    wyoming: int = key(0, env="WYOMING", low=1, high=65_535, special={0: "off"})
    """Port for Wyoming."""
    api_key: str = key("", env="API_KEY", secret=True)
    keys_file: str = key("", env="KEYS_FILE")
    tls: Literal["off", "self-signed"] = key("off", env="TLS")
    """A certificate that the server makes; ``tls_cert`` names another one."""
    tls_cert: str = key("", env="TLS_CERT")
    tls_key: str = key("", env="TLS_KEY")
    idle_exit: float = key(0.0, env="IDLE_EXIT", low=1, special={0: "never"})
    """Seconds without a request after which the server ends."""
    log_level: str = key("info", env="LOG_LEVEL", choices=("debug", "info", "warning", "error"))
    log_format: Literal["plain", "json"] = key("plain", env="LOG_FORMAT")
    llamacpp_metrics: bool = key(False, env="LLAMACPP_METRICS")
    """Show llama-server's names in ``GET /metrics``, too."""
    drain_seconds: float = key(10.0, env="DRAIN_SECONDS", low=0)
    queue_limit: int = key(8, env="QUEUE_LIMIT", low=0)
    max_body_mb: int = key(0, env="MAX_BODY_MB", low=1, special={0: "by the size of the machine"})
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
    peers: tuple[str, ...] = key(())
    """Addresses of all nodes behind the same balancer, this one too, whose state the server shows."""
    remote_images: bool = key(False, env="REMOTE_IMAGES")
    remote_image_hosts: tuple[str, ...] = key(())
    models_dir: str = key("", env="MODELS_DIR")
    states_dir: str = key("", env="STATES_DIR")
    isolation: Isolation = key("auto", env="ISOLATION")
    serve: Literal["configured", "stored"] = key("configured", env="SERVE")
    """"stored": whatever is in the store is served on demand, too, under its own name."""
    tune: Literal["idle", "off"] = key("idle", env="TUNE")
    """"idle": while nobody uses the server, it measures the fastest settings of each model, once."""
    unknown_fields: Literal["ignore", "refuse"] = key("ignore", env="UNKNOWN_FIELDS")
    unknown_models: Literal["auto", "default", "refuse"] = key("auto", env="UNKNOWN_MODELS")
    """Answer to the name of a model that is not here."""

    @property
    def encrypted(self) -> bool:
        """Whether the port for HTTP speaks TLS."""
        return bool(self.tls_cert) or self.tls != "off"

    @property
    def stand_ins(self) -> bool:
        """Whether the default of a job answers for models that are not here: by itself, on this machine only."""
        alone = self.host.lower() == "localhost" or client_of(self.host) == LOOPBACK
        return self.unknown_models == "default" or (self.unknown_models == "auto" and alone)


@dataclass(frozen=True, slots=True)
class ResidencySettings:
    """[residency], in seconds"""

    warm_after: float = key(60.0, env="WARM_AFTER", low=0)
    idle_timeout: float = key(300.0, env="IDLE_TIMEOUT", low=0)
    check_interval: float = key(30.0, env="CHECK_INTERVAL", low=0.05)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings.

    Fields:
        models   by id: the job for its own table, NAME for [models.NAME]
        source   name of the file for messages
        written  text of the file, to find the line of a key
    """

    server: ServerSettings = ServerSettings()
    residency: ResidencySettings = ResidencySettings()
    memory: MemoryPolicy = field(default_factory=MemoryPolicy)
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    source: str = "defaults"
    written: Source = NO_FILE

    @property
    def preload(self) -> list[str]:
        """The models that are loaded before the server accepts requests."""
        return [model for model, settings in self.models.items() if settings.preload]

    def isolated(self, settings: ModelSettings) -> bool:
        """Whether the engine of a model of these settings lives in a process of its own.

        llama.cpp ends the process when it loses one of the ``nodes``.
        """
        if settings.options.get(NODES):
            return True
        chosen = [one for one in (settings.isolation, self.server.isolation) if one != "auto"]
        return chosen[0] == "process" if chosen else pays(settings.job)

    def in_file(self, table: str, name: str) -> bool:
        """Whether the value of a key comes from the file, and not from a flag, a variable or a default.

        ``table``: "server", or a model's, by ``table_of``.
        """
        settings = self.server if table == "server" else self.models.get(table.removeprefix(f"{MODELS}."))
        if settings is None:
            return False  # a model on demand, which no table names
        written = inner(tomllib.loads(self.written.text), table) or {}
        return bool(written.get(name) == getattr(settings, name))

    def label(self, table: str, name: str) -> str:
        """A key for messages, with file and line where the file holds its value. ``table`` as in ``in_file``."""
        source = self.written if self.in_file(table, name) else NO_FILE
        return source.label(table, name)


ENGINE_VARIABLES: Mapping[str, tuple[Job, str]] = MappingProxyType(
    {one.variable: (job, "model") for job, one in INFO.items()} | {"MMPROJ": ("vision", "mmproj")}
)
"""Variables (and flags of the same name) that set a key of one engine: variable → (job, key)."""

SECTIONS = ("server", "residency", "memory", *ALL_JOBS, MODELS)


def load(environ: Mapping[str, str], *, path: Path | None = None, flags: Mapping[str, object] | None = None) -> Config:
    """Read the settings. Raises ConfigError.

    Arguments:
        flags  values by the name of their variable without prefix ({"PORT": 9000}); None counts as not given
        path   the file; None: $EDGESERVE_CONFIG, else ./models.toml if it exists
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    environ = with_credentials(environ)
    path = path or _named(environ) or _beside()
    source, document = _parse(path) if path else (NO_FILE, {})
    reader = Reader(source, environ, given, tables())
    reader.known("", document, SECTIONS)
    for name, table in document.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{source.label(name)} must be a table, not {shorten(table)}")
    models = _overrides(reader, dict(read_models(reader, document)) if path else starter())
    check_names(reader, models)
    server = ServerSettings(**reader.read(ServerSettings, "server", document.get("server", {})))
    if not server.api_key.isprintable() or " " in server.api_key:
        label = source.label("server", "api_key")
        raise ConfigError(f"{label}, or its variable: expected visible characters without spaces")
    if server.tls_key and not server.tls_cert:
        raise ConfigError(f"{source.label('server', 'tls_key')} needs tls_cert, the certificate of this key")
    if server.tls_cert and server.tls != "off":
        raise ConfigError(f"{source.label('server', 'tls')} = {server.tls!r} and tls_cert: give one of them")
    return Config(
        server=server,
        residency=ResidencySettings(**reader.read(ResidencySettings, "residency", document.get("residency", {}))),
        memory=read_policy(document.get("memory", {}), environ, source, reader.tables),
        models=MappingProxyType(models),
        source=source.name or "defaults",
        written=source,
    )


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


@functools.cache
def tables() -> dict[str, list[str]]:
    """Names of the known keys, by table."""
    known = {"server": ServerSettings, "residency": ResidencySettings, "memory": MemoryPolicy}
    served = {name: key_names(kind, name) for name, kind in known.items()}
    return served | {job: key_names(ModelSettings, job) + key_names(options_of(job), job) for job in ALL_JOBS}


def _overrides(reader: Reader, models: dict[str, ModelSettings]) -> dict[str, ModelSettings]:
    """Apply flags and variables: models, projector, device and preload."""
    for variable, (job, name) in ENGINE_VARIABLES.items():
        if (found := reader.given(variable)) and found[1]:
            base, value = models.get(job, ModelSettings(job)), reader.checked(found, ModelSettings, name)
            # Options written for another model do not fit this one.
            options = base.options if name != "model" or base.model == value else {}
            changed: dict[str, Any] = {name: value, "options": options}
            models[job] = dataclasses.replace(base, **changed)
    if "vision" in models and not models["vision"].model:
        label = (reader.given("MMPROJ") or ("mmproj", None))[0]
        raise ConfigError(f"{label} is given without a vision model; name it with --vlm-model")
    if found := reader.given("DEVICE"):
        device = reader.checked(found, ModelSettings, "device")
        models = {model: dataclasses.replace(one, device=device) for model, one in models.items()}
    if found := reader.given("PRELOAD"):
        label, preload = found
        chosen = set(models) if preload == "all" else {name.strip() for name in str(preload).split(",")}
        if not chosen <= set(models):
            raise ConfigError(f"{label} = {preload!r}: expected all, or a list of {', '.join(models)}")
        models = {model: dataclasses.replace(one, preload=model in chosen) for model, one in models.items()}
    return models
