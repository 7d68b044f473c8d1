"""The settings that were measured to be the fastest for a model on this machine, kept on disk.

They fill in for keys that the configuration leaves to the machine. A record holds for one file, one release of the
runtime and one kind of processor.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging
from collections.abc import Mapping
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.models import disk
from edgeserve.system import cpu

log = logging.getLogger("edgeserve.fit")

FOLDER = "tuned"
"""Beside the folder of the models."""
ROLE = "tuned"
"""Role of the record among the files of a specification, and name of the option that carries its settings."""
RUNTIME = "llama_cpp"
METHOD = 2
"""Edition of the measurement. Records of an earlier one do not hold. 2: beside another conversation."""
IDLE = "idle"
"""Argument of a measurement that gives way to all other programs, and ends with its standard input."""

BUSY = 0.3
"""Cores that other programs may take meanwhile; with more, the figures are no ground for a choice."""

Settings = Mapping[str, str | int]
"""Values by their keys in models.toml."""


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


def read(path: Path, model: Path) -> Tuned | None:
    """The record, if it holds for this file of the model, here and now. A damaged one is logged, and measured anew."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        kept = Tuned(**{**found, "forms": tuple(Form(**one) for one in found["forms"]), "best": dict(found["best"])})
        size = model.stat().st_size
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
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
