"""The settings that were measured to be the fastest for a model on this machine, kept on disk.

They fill in for keys that the configuration leaves to the machine. A record holds for one file, one release of the
runtime and one kind of processor.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from edgeserve.dataclass import dataclass
from edgeserve.models import disk
from edgeserve.setting_values import NOTHING, checked
from edgeserve.system import cpu, plain

log = logging.getLogger("edgeserve.fit")

FOLDER = "tuned"
"""Beside the folder of the models."""
ROLE = "tuned"
"""Role of the record among the files of a specification, and name of the option that carries its settings."""
RUNTIME = "llama_cpp"
METHOD = 2
"""Edition of the measurement. Records of an earlier one do not hold. 2: beside another conversation."""
IDLE = "idle"
"""Argument of a measurement that gives way to all other programs."""

BUSY = 0.3
"""Cores that other programs may take meanwhile; with more, the figures are no ground for a choice."""

Settings = Mapping[str, str | int]
"""Values by their keys in models.toml."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a form may set, with the bounds of models.toml."""

    repack: Literal["on", "off"] = "on"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    batch: int = field(default=32, metadata={"low": 32, "high": 2048})
    threads: int = field(default=1, metadata={"low": 1, "high": 512})
    threads_batch: int = field(default=1, metadata={"low": 1, "high": 512})


@dataclass(frozen=True, slots=True)
class Form:
    """One set of settings, as measured.

    ``climb``: seconds from warm to hot. ``prompt`` and ``tokens``: tokens a second read and written.
    """

    settings: Settings
    climb: float
    prompt: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """``size`` of the file in bytes; ``best``: the settings to use; ``forms``: everything measured, the default first.

    ``others``: cores that other programs took meanwhile. ``method``: edition of the measurement.
    """

    size: int
    runtime: str
    processor: str
    machine: str
    best: Settings
    forms: tuple[Form, ...]
    others: float = 0.0
    method: int = 1


def path_of(models: Path, name: str) -> Path:
    """The record of a model; ``models``: the folder of the models."""
    return models.parent / FOLDER / f"{name}.json"


def runtime() -> str:
    """Release of llama-cpp-python; empty where it is not installed. Imports nothing."""
    spec = importlib.util.find_spec(RUNTIME)
    if spec is None or spec.origin is None:
        return ""
    installed = Path(spec.origin).parent.parent.glob(f"{RUNTIME}_python-*.dist-info")
    return next((one.name.removesuffix(".dist-info").rpartition("-")[2] for one in installed), "")


def record(size: int, best: Settings, forms: tuple[Form, ...], others: float) -> Tuned:
    """A record of this machine."""
    return Tuned(size, runtime(), cpu.name(), cpu.kind(), best, forms, others, METHOD)


def form(found: Mapping[str, Any]) -> Form:
    """A form from its JSON. Raises ValueError, KeyError and TypeError for what no measurement prints."""
    made = Form(**{name: found[name] for name in ("settings", "climb", "prompt", "tokens")})
    checked(made.settings, Keys, NOTHING)
    if not (0 <= made.climb < math.inf and 0 < made.prompt < math.inf and 0 < made.tokens < math.inf):
        raise ValueError(f"no figures: {found}")
    return made


def read(path: Path, model: Path) -> Tuned | None:
    """The record, if it holds for this file of the model, here and now. A damaged one is logged, and measured anew."""
    try:
        found = json.loads(plain.read(path))
        kept = Tuned(**{**found, "forms": tuple(map(form, found["forms"])), "best": dict(found["best"])})
        if all(one.settings != kept.best for one in kept.forms):
            raise ValueError("its best settings were not measured")
        size = model.stat().st_size
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("%s cannot be read (%s: %s); it is measured anew", path, type(error).__name__, error)
        return None
    here = (size, runtime(), cpu.name(), cpu.kind(), METHOD)
    return kept if (kept.size, kept.runtime, kept.processor, kept.machine, kept.method) == here else None


def keep(path: Path, tuned: Tuned) -> None:
    """Write the record. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.write(path, json.dumps(dataclasses.asdict(tuned), indent=1))


def words(settings: Settings) -> str:
    """Settings as they stand in models.toml: 'repack = "on", threads_batch = 2'."""
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in settings.items()) or "the defaults"
