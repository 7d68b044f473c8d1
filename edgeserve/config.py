"""Settings: flags over ``EDGESERVE_*`` variables over models.toml over defaults, read once into frozen dataclasses.

Every key is a field of one of the dataclasses below; its metadata names the variable and the bounds. A mistake
is one ConfigError that says where it is, what it found and what was expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from edgeserve.engine import ALL_JOBS, Device, Job
from edgeserve.errors import ConfigError

ENV_PREFIX = "EDGESERVE_"

KINDS: Mapping[Job, str] = MappingProxyType(
    {"llm": "chat", "vision": "vision", "asr": "transcribe", "tts": "speak", "embedding": "embed"}
)
"""What each engine is asked for, in the words of ``when``."""


def key(default: Any, *, env: str | None = None, low: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    """A setting: its default, its variable (without prefix), the smallest value or the words allowed."""
    return field(default=default, metadata={"env": env, "low": low, "choices": choices})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """[server]"""

    host: str = key("127.0.0.1", env="HOST")
    port: int = key(8080, env="PORT", low=0)
    api_key: str = field(default="", repr=False, metadata={"env": "API_KEY", "low": None, "choices": ()})
    log_level: str = key("info", env="LOG_LEVEL", choices=("debug", "info", "warning", "error"))
    log_json: bool = key(False, env="LOG_JSON")
    drain_seconds: float = key(10.0, env="DRAIN_SECONDS", low=0)
    queue_limit: int = key(8, env="QUEUE_LIMIT", low=0)
    max_body_mb: int = key(32, env="MAX_BODY_MB", low=1)
    max_text_chars: int = key(262_144, env="MAX_TEXT_CHARS", low=1)
    max_audio_seconds: float = key(7200.0, env="MAX_AUDIO_SECONDS", low=1)
    live_sessions: int = key(16, env="LIVE_SESSIONS", low=1)
    live_idle_seconds: float = key(60.0, env="LIVE_IDLE_SECONDS", low=1)
    allowed_hosts: tuple[str, ...] = key(())
    cors_origins: tuple[str, ...] = key(())
    remote_images: bool = key(False, env="REMOTE_IMAGES")
    remote_image_hosts: tuple[str, ...] = key(())
    models_dir: str = key("", env="MODELS_DIR")


@dataclass(frozen=True, slots=True)
class ResidencySettings:
    """[residency], all in seconds"""

    warm_after: float = key(60.0, env="WARM_AFTER", low=0)
    idle_timeout: float = key(300.0, env="IDLE_TIMEOUT", low=0)
    check_interval: float = key(30.0, env="CHECK_INTERVAL", low=0.05)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """[llm], [vision], [asr], [tts], [embedding]: one engine. ``options`` are the keys that belong to itself."""

    model: str = key("")
    mmproj: str = key("")
    device: Device = key("auto", choices=("auto", "cpu", "cuda", "metal"))
    threads: int = key(0, low=0)
    preload: bool = key(False)
    pinned: bool = key(False)
    when: tuple[str, ...] = key((), choices=tuple(KINDS.values()))
    """Kinds of request at whose beginning this engine is heated, too, where it fits."""
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """All of it. ``memory`` holds the keys of [memory] as written; the governor's policy checks them."""

    server: ServerSettings = ServerSettings()
    residency: ResidencySettings = ResidencySettings()
    memory: Mapping[str, object] = field(default_factory=dict)
    engines: Mapping[Job, EngineSettings] = field(default_factory=dict)
    source: str = "defaults"


STARTER: Mapping[Job, EngineSettings] = MappingProxyType(
    {
        "llm": EngineSettings(model="smollm2-135m-instruct"),
        "asr": EngineSettings(model="whisper-tiny.en"),
        "tts": EngineSettings(model="hibari"),
    }
)
"""What is served where no models.toml says otherwise."""

ENGINE_VARIABLES: Mapping[str, tuple[Job, str]] = MappingProxyType(
    {
        "LLM": ("llm", "model"),
        "VLM_MODEL": ("vision", "model"),
        "MMPROJ": ("vision", "mmproj"),
        "ASR_MODEL": ("asr", "model"),
        "TTS_MODEL": ("tts", "model"),
        "EMBEDDING_MODEL": ("embedding", "model"),
    }
)
"""Variables (and flags of the same name) that name one engine's model: variable → (engine, key)."""

SECTIONS = ("server", "residency", "memory", *ALL_JOBS)


def load(environ: Mapping[str, str], *, path: Path | None = None, flags: Mapping[str, object] | None = None) -> Config:
    """Read the settings. ``flags`` are keyed like variables without their prefix ("PORT": 9000); None is not given.

    The file is ``path``, else $EDGESERVE_CONFIG, else ./models.toml when it exists. Raises ConfigError.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    path = path or _named(environ) or _beside()
    document = _parse(path) if path else {}
    where = str(path) if path else "defaults"
    reader = _Reader(environ, given, where, path.read_text(encoding="utf-8") if path else "")
    reader.known("", document, SECTIONS)
    engines = {job: reader.engine(job, document.get(job)) for job in ALL_JOBS if job in document}
    server = reader.section(ServerSettings, "server", document.get("server", {}))
    if not server.api_key.isprintable() or " " in server.api_key:
        raise ConfigError(f"{where}: [server] api_key, or its variable: expected visible characters without spaces")
    return Config(
        server=server,
        residency=reader.section(ResidencySettings, "residency", document.get("residency", {})),
        memory=reader.table("memory", document.get("memory", {})),
        engines=reader.overrides(engines if path else dict(STARTER)),
        source=where,
    )


def chains(engines: Mapping[Job, EngineSettings]) -> dict[str, tuple[Job, ...]]:
    """Engines to heat ahead, by the kind of request that begins."""
    return {kind: tuple(job for job, one in engines.items() if kind in one.when) for kind in KINDS.values()}


def _named(environ: Mapping[str, str]) -> Path | None:
    name = environ.get(ENV_PREFIX + "CONFIG")
    return Path(name).expanduser() if name else None


def _beside() -> Path | None:
    path = Path("models.toml")
    return path if path.is_file() else None


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected the server's models.toml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


@dataclass(frozen=True, slots=True)
class _Reader:
    environ: Mapping[str, str]
    flags: Mapping[str, object]
    where: str
    text: str

    def section(self, kind: type[Any], name: str, value: object) -> Any:
        table = self.table(name, value)
        self.known(name, table, [one.name for one in dataclasses.fields(kind)])
        return kind(**self._values(kind, name, table))

    def engine(self, job: Job, value: object) -> EngineSettings:
        """An engine's keys; those that the server does not know are the engine's own options."""
        table = self.table(job, value)
        names = [one.name for one in dataclasses.fields(EngineSettings)]
        if not table.get("model"):
            raise ConfigError(f'{self.where}: [{job}] names no model; expected a line such as model = "…"')
        options = {name: item for name, item in table.items() if name not in names}
        settings = EngineSettings(**self._values(EngineSettings, job, table), options=options)
        if KINDS[job] in settings.when:
            place = f"{self._place('when')}: [{job}] when = {KINDS[job]!r}"
            raise ConfigError(f"{place}: that request heats [{job}] anyway; name another kind")
        return settings

    def table(self, name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ConfigError(f"{self._place(name)}: [{name}] must be a table, not {value!r}")
        return value

    def known(self, section: str, table: Mapping[str, object], names: list[str] | tuple[str, ...]) -> None:
        for name in table:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"expected one of: {', '.join(names)}"
                place = f"[{section}] {name}" if section else f"[{name}]"
                raise ConfigError(f"{self._place(name)}: {place} is not a known setting; {hint}")

    def overrides(self, engines: dict[Job, EngineSettings]) -> Mapping[Job, EngineSettings]:
        """Models named by flags or variables, and the device for all engines."""
        for variable, (job, name) in ENGINE_VARIABLES.items():
            value = self._given(variable)
            if value:
                base = engines.get(job, EngineSettings())
                # Options written for another model do not fit this one.
                options = base.options if name != "model" or base.model == value else {}
                changed: dict[str, Any] = {name: str(value), "options": options}
                engines[job] = dataclasses.replace(base, **changed)
        if "vision" in engines and not engines["vision"].model:
            raise ConfigError("mmproj is given without a vision model; name it with --vlm-model")
        if device := self._given("DEVICE"):
            _check(f"{ENV_PREFIX}DEVICE", device, str, _field(EngineSettings, "device").metadata)
            engines = {job: dataclasses.replace(one, device=device) for job, one in engines.items()}
        if preload := self._given("PRELOAD"):
            jobs = set(engines) if preload == "all" else {name.strip() for name in str(preload).split(",")}
            if not jobs <= set(engines):
                served = ", ".join(engines)
                raise ConfigError(f"{ENV_PREFIX}PRELOAD = {preload!r}: expected all, or a list of {served}")
            engines = {job: dataclasses.replace(one, preload=job in jobs) for job, one in engines.items()}
        return MappingProxyType(engines)

    def _given(self, variable: str) -> Any:
        """A flag, else its variable; None when neither is given."""
        return self.flags.get(variable, self.environ.get(ENV_PREFIX + variable) or None)

    def _values(self, kind: type[Any], section: str, table: Mapping[str, Any]) -> dict[str, Any]:
        hints = get_type_hints(kind)
        values = {}
        for one in dataclasses.fields(kind):
            if not one.metadata:
                continue
            expected = hints[one.name]
            variable = one.metadata["env"]
            if variable and variable in self.flags:
                place, value = f"--{variable.lower().replace('_', '-')}", self.flags[variable]
            elif variable and self.environ.get(ENV_PREFIX + variable):  # empty, as Compose passes it on: not given
                place = ENV_PREFIX + variable
                value = _from_text(place, self.environ[place], expected)
            elif one.name in table:
                place, value = f"{self._place(one.name)}: [{section}] {one.name}", table[one.name]
            else:
                continue
            values[one.name] = _check(place, value, expected, one.metadata)
        return values

    def _place(self, name: str) -> str:
        """The file, and the line on which a key or table of that name first stands."""
        for number, line in enumerate(self.text.splitlines(), start=1):
            if line.split("=")[0].strip().strip("[]\"'") == name:
                return f"{self.where}, line {number}"
        return self.where


def _field(kind: type[Any], name: str) -> dataclasses.Field[Any]:
    return next(one for one in dataclasses.fields(kind) if one.name == name)


def _from_text(place: str, text: str, expected: Any) -> object:
    """A variable's text as the type that its key has."""
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if expected is bool:
        if text.lower() not in words:
            raise ConfigError(f"{place} = {text!r}: expected true or false")
        return words[text.lower()]
    if expected in (int, float):
        try:
            return expected(text)
        except ValueError:
            raise ConfigError(f"{place} = {text!r}: expected {_NAMES[expected]}") from None
    return text


_NAMES = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}


def _check(place: str, value: object, expected: Any, bounds: Mapping[str, Any]) -> object:
    if expected == tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        return tuple(_check(place, item, str, bounds) for item in items)
    plain = expected if expected in _NAMES else str
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, plain) or (plain is int and isinstance(value, bool)):
        raise ConfigError(f"{place} = {value!r}: expected {_NAMES[plain]}")
    if bounds["choices"] and value not in bounds["choices"]:
        raise ConfigError(f"{place} = {value!r}: expected one of {', '.join(bounds['choices'])}")
    if bounds["low"] is not None and value < bounds["low"]:
        raise ConfigError(f"{place} = {value!r}: expected at least {bounds['low']:g}")
    return value
