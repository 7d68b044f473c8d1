"""Measured peaks of each model on this device, kept on disk: the next start estimates from them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.jobs import NODES
from edgeserve.system import plain

log = logging.getLogger("edgeserve.memory")

LIMIT = 256
"""Rows kept. The oldest row is dropped first."""
WORTH_WRITING = 0.01
"""A peak that rises by less than this share is not written again."""
FIELDS = ("mapped", "private", "per_request", "device")
FIRM = "firm_private"
"""Private bytes that are expected since the system has killed the model's process; 0 where it has not."""


class Peaks:
    """Peaks in bytes, by model and settings. ``path`` None keeps them in memory only. Any thread."""

    def __init__(self, path: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall = wall
        self._lock = threading.Lock()
        self._peaks: dict[str, dict[str, float]] | None = None
        self._told = ""

    def find(self, spec: ModelSpec) -> Footprint | None:
        """The learned peak of a model with its settings; None for a model that never ran here."""
        with self._lock:
            row = self._rows().get(key(spec))
        return _footprint(row) if row else None

    def highest(self, job: str, name: str) -> Footprint | None:
        """The largest learned peak of a model, whatever its settings; None for a model that never ran here."""
        begin = f"{job}:{name}:{platform.system()}-{platform.machine()}:"
        with self._lock:
            rows = [row for key, row in self._rows().items() if key.startswith(begin)]
        return max(map(_footprint, rows), key=lambda one: one.total, default=None)

    def firm(self, spec: ModelSpec) -> int:
        """Private bytes of a peak that hold since the system has killed the model's process; else 0."""
        with self._lock:
            return int(self._rows().get(key(spec), {}).get(FIRM, 0))

    def doubt(self, spec: ModelSpec) -> None:
        """Forget what is not firm of a peak: what is measured next takes its place."""
        with self._lock:
            if (row := self._rows().pop(name := key(spec), None)) is None:
                return
            if row[FIRM]:
                self._rows()[name] = row | {"private": row[FIRM]}
            self._write(self._rows())

    def learn(self, spec: ModelSpec, taken: Footprint, *, firm: bool = False) -> None:
        """Remember a peak. A failure to write is logged, not raised: the next start falls back to an estimate.

        The part of a model that lies on several machines follows their free memory, so nothing is learned of it.
        """
        if spec.options.get(NODES):
            return
        name = key(spec)
        with self._lock:
            rows = self._rows()
            old = rows.get(name, dict.fromkeys(FIELDS, 0))
            new: dict[str, float] = {one: max(old[one], getattr(taken, one)) for one in FIELDS}
            new[FIRM] = max(old.get(FIRM, 0), taken.private if firm else 0)
            rise = sum(new[one] - old[one] for one in FIELDS)
            if rise <= WORTH_WRITING * sum(old[one] for one in FIELDS) and new[FIRM] == old.get(FIRM, 0):
                return
            rows.pop(name, None)
            rows[name] = new | {"learned": self._wall()}
            while len(rows) > LIMIT:
                del rows[next(iter(rows))]
            self._write(rows)

    def _rows(self) -> dict[str, dict[str, float]]:
        if self._peaks is None:
            self._peaks = read(self._path) if self._path else {}
        return self._peaks

    def _write(self, rows: dict[str, dict[str, float]]) -> None:
        if self._path is None:
            return
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps({"version": 1, "peaks": rows}, indent=1), encoding="utf-8")
            os.replace(beside, self._path)
            self._told = ""
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)  # no later process has this name, so nobody would remove it
            if str(error) != self._told:  # each way up of an engine tries again
                log.warning("learned peaks could not be written to %s: %s; they are learned anew", beside, error)
            self._told = str(error)


def read(path: Path) -> dict[str, dict[str, float]]:
    """The rows of the file. A damaged file is logged and put aside as ``….damaged``."""
    try:
        document = json.loads(plain.read(path))
        rows = document["peaks"]
        return {
            str(name): {one: _finite(row[one]) for one in (*FIELDS, "learned")} | {FIRM: _finite(row.get(FIRM, 0))}
            for name, row in rows.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        aside = path.with_name(f"{path.name}.damaged")
        log.warning("%s cannot be read (%s: %s); put aside as %s", path, type(error).__name__, error, aside.name)
        try:
            os.replace(path, aside)
        except OSError as failure:
            log.warning("%s could not be put aside: %s", path, failure)
        return {}


def _footprint(row: Mapping[str, float]) -> Footprint:
    mapped, private, per_request, device = (int(row[one]) for one in FIELDS)
    return Footprint(mapped, private, per_request, device)


def _finite(value: object) -> float:
    found = float(value)  # type: ignore[arg-type]  # TypeError is a damaged file, too
    if not math.isfinite(found):
        raise ValueError(f"{found} is no figure")
    return found


def key(spec: ModelSpec) -> str:
    """Model, file sizes, settings and kind of host: everything that changes the memory of a model changes its key."""
    sizes = {role: path.stat().st_size for role, path in spec.files.items() if path.is_file()}
    settings = [spec.engine, spec.device, spec.threads, sorted(sizes.items()), sorted(spec.options.items())]
    digest = hashlib.sha256(json.dumps(settings, default=str).encode()).hexdigest()[:16]
    return f"{spec.job}:{spec.name}:{platform.system()}-{platform.machine()}:{digest}"
