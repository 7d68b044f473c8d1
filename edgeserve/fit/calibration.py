"""The figures of this machine that speeds are expected from: measured once, kept with the name of the processor."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.errors import EngineFailure
from edgeserve.fit import speed
from edgeserve.fit.speed import Rates
from edgeserve.fit.trial import ONE_THREAD
from edgeserve.models import catalog, disk
from edgeserve.models.entry import Entry
from edgeserve.models.stored import StoredModel
from edgeserve.processes.interpreter import module_command
from edgeserve.system import cores, cpu, plain

log = logging.getLogger("edgeserve.fit")

FILE = "calibration.json"
"""Beside the folder of the models."""
FIXED_SHARE = 0.38
"""Share of a token of the starter model on one thread that a larger model does not take, measured."""
SMALL = 400_000_000
"""Most parameters of a model to time. The share that does not grow with a model is no small part of its tokens."""
TIME_LIMIT = 120.0
"""Seconds. The measurement takes three on a small box, and twenty on a slow one."""

Run = Callable[[Sequence[str]], str]
"""Runs a command and returns its stdout. Raises OSError or subprocess.SubprocessError."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """``processor``: its name; ``machine``: text that differs where the figures may differ; ``model``: the chat model
    whose tokens were timed, empty without one."""

    processor: str
    machine: str
    rates: Rates
    model: str = ""


def run(command: Sequence[str]) -> str:
    environ = {**os.environ, **ONE_THREAD}
    return subprocess.run(  # noqa: S603 - our own module
        command, capture_output=True, timeout=TIME_LIMIT, check=True, text=True, env=environ
    ).stdout


FAILURES = (subprocess.SubprocessError, OSError, ValueError, KeyError, TypeError)


def measure(model: StoredModel | None, run: Run = run) -> Calibration:
    """Measure the machine, with one stored chat model where there is one. Blocks for seconds. Raises EngineFailure.

    A model that fails is left out: its failure is logged.
    """
    if model is not None:
        try:
            return _measured(model, run)
        except FAILURES as error:
            log.warning("the tokens of %s could not be timed: %s", model.name, _words(error))
    try:
        return _measured(None, run)
    except FAILURES as error:
        raise EngineFailure(f"the speed of this machine could not be measured: {_words(error)}") from error


def _measured(model: StoredModel | None, run: Run) -> Calibration:
    found = json.loads(run([*module_command("edgeserve.fit.trial"), _given(model)]))
    entry = catalog.find(model.name) if model else None
    return Calibration(cpu.name(), cpu.kind(), rates_of(found, entry, cores.usable()), model.name if model else "")


def _words(error: Exception) -> str:
    """The error, with the last line that the process wrote on stderr."""
    said = str(getattr(error, "stderr", None) or "").strip().splitlines()
    return f"{error}{f' ({said[-1]})' if said else ''}"


def _given(model: StoredModel | None) -> str:
    if model is None:
        return "{}"
    files = {role: str(path) for role, path in model.files.items()}
    return json.dumps({"job": model.job, "name": model.name, "engine": model.engine, "files": files})


def rates_of(found: Mapping[str, float], entry: Entry | None, threads: int) -> Rates:
    """The figures of the machine from those of the trial.

    The token on one thread gives the weights that a core multiplies: other programs hardly disturb it, and memory is
    no limit. The token on all threads gives the share that does not grow. Raises KeyError, TypeError and ValueError for
    figures that are none.
    """
    rates = Rates(float(found["bandwidth"]), float(found["operations"]))
    figures = [rates.bandwidth, rates.operations]
    if entry is not None:
        figures += [float(found["token_seconds_alone"]), float(found["token_seconds"])]
    if not all(math.isfinite(one) and one > 0 for one in figures):
        raise ValueError(f"no figures: {found}")
    if entry is None:
        return rates
    alone = figures[2]
    together = min(figures[3], alone)  # all threads are slower than one only where other programs take the cores
    weights = threads * entry.parameters / ((1 - FIXED_SHARE) * alone)
    growing = max(speed.bytes_of_token(entry) / rates.bandwidth, entry.parameters / weights)
    return dataclasses.replace(rates, weights=weights, token_seconds=max(0.0, together - growing))


def read(path: Path) -> Calibration | None:
    """The kept figures, if they are of this machine. A file that cannot be read is logged, and measured anew."""
    try:
        found = json.loads(plain.read(path))
        kept = Calibration(**{**found, "rates": _plausible(Rates(**found["rates"]))})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("%s cannot be read (%s: %s); it is measured anew", path, type(error).__name__, error)
        return None
    return kept if (kept.processor, kept.machine) == (cpu.name(), cpu.kind()) else None


def _plausible(rates: Rates) -> Rates:
    """Raises ValueError for figures that no machine has, and TypeError for texts."""
    figures = dataclasses.asdict(rates)
    if not all(math.isfinite(one) and one >= 0 for one in figures.values()) or not (
        rates.bandwidth and rates.operations
    ):
        raise ValueError(f"no figures: {figures}")
    return rates


def keep(path: Path, calibration: Calibration) -> None:
    """Write the figures. A failure is logged, not raised: the next call measures again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, json.dumps(dataclasses.asdict(calibration), indent=1))
    except OSError as error:
        log.warning("%s cannot be written: %s; the speed of this machine is measured again next time", path, error)
