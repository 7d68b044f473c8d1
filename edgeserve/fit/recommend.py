"""Advice: the models of the catalogue that suit this machine, for a command and for a page."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import ModelMissing, StoreError
from edgeserve.fit import calibration, memory, speed
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.choice import Box, Candidate, Judged, judge, together
from edgeserve.jobs import ALL_JOBS, Job
from edgeserve.memory.peaks import Peaks
from edgeserve.models import catalog, needs
from edgeserve.models.entry import Entry
from edgeserve.models.store import Store
from edgeserve.models.stored import StoredModel

PEAKS = "memory.json"
"""The file of learned peaks, beside the folder of the models."""


@dataclass(frozen=True, slots=True)
class Advice:
    """``judged`` by job, as ``choice.judge`` orders it. ``together``: one model a job that all run at once."""

    box: Box
    calibration: Calibration
    judged: tuple[Judged, ...]
    together: tuple[Candidate, ...]

    def as_json(self) -> dict[str, Any]:
        """Everything by name; sizes in bytes, speeds in the unit beside them."""
        limit = self.box.budget
        return {
            "machine": {
                "processor": self.calibration.processor,
                "memory_total": self.box.readings.total,
                "memory_available": self.box.readings.available,
                "memory_budget": limit.usable,
                "budget_winner": limit.winner,
            },
            "calibration": {"model": self.calibration.model, **asdict(self.calibration.rates)},
            "models": [_as_json(one) for one in self.judged],
            "together": {
                "models": [one.entry.name for one in self.together],
                "memory": sum(one.amount.total for one in self.together),
            },
        }


def _as_json(judged: Judged) -> dict[str, Any]:
    one = judged.candidate
    return {
        "name": one.entry.name,
        "job": one.job,
        "description": one.entry.description,
        "licence": one.entry.licence,
        "size": one.entry.size_bytes,
        "pulled": one.pulled,
        "verified": one.entry.verified,
        "memory": one.amount.total,
        "memory_parts": {part: size for part, size in asdict(one.memory.footprint).items() if part != "exact"},
        "memory_origin": one.memory.origin,
        "speed": None if one.speed is None else asdict(one.speed),
        "fits": judged.fits,
        "suits": judged.suits,
        "best": judged.best,
        "reason": judged.reason,
    }


def calibrated(store: Store, *, anew: bool = False, begin: Callable[[], object] = lambda: None) -> Calibration:
    """The figures of this machine: those that are kept, else measured now, which blocks for seconds.

    ``begin`` is called before a measurement. Raises EngineFailure.
    """
    path = store.root.parent / calibration.FILE
    kept = None if anew else calibration.read(path)
    if kept is not None:
        return kept
    begin()
    found = calibration.measure(smallest_chat(store))
    calibration.keep(path, found)
    return found


def smallest_chat(store: Store) -> StoredModel | None:
    """The smallest stored chat model of the catalogue, if it is small enough to be timed."""
    known = [(catalog.find(one.name).parameters, one) for one in store.list() if catalog.knows(one.name)]
    chats = [(count, one) for count, one in known if one.job == "llm" and 0 < count <= calibration.SMALL]
    return min(chats, key=lambda pair: pair[0], default=(0, None))[1]


def advise(store: Store, box: Box, figures: Calibration, jobs: Collection[Job] = ALL_JOBS) -> Advice:
    """The advice for these jobs. Blocks for a third of a second for each stored chat or vision model."""
    found = judge(candidates(store, figures, jobs), box)
    return Advice(box, figures, tuple(found), tuple(together(found, box)))


def candidates(store: Store, figures: Calibration, jobs: Collection[Job]) -> Iterator[Candidate]:
    """The models of the catalogue for these jobs that this kind of machine can run."""
    peaks = Peaks(store.root.parent / PEAKS)
    disk = shutil.disk_usage(_there(store.root)).free
    for entry in catalog.MODELS.values():
        if entry.job == "vad" or entry.job not in jobs or not runs_here(entry):
            continue
        stored = _stored(store, entry)
        conversion = () if stored else needs.to_convert(entry.convert)
        yield Candidate(
            entry.job,
            entry,
            memory.expected(entry, stored, peaks),
            speed.expected(entry, figures.rates),
            stored is not None,
            disk,
            needs.packages((*needs.to_run(entry.options), *conversion)),
        )


def runs_here(entry: Entry, system: Mapping[str, str] | None = None) -> bool:
    """Whether the engine of the model is for this kind of machine: MLX's are for Apple silicon."""
    here = system or {"platform": sys.platform, "machine": platform.machine()}
    return entry.convert != "whisper_mlx" or here == {"platform": "darwin", "machine": "arm64"}


def _stored(store: Store, entry: Entry) -> StoredModel | None:
    try:
        return store.find(entry.name)
    except (ModelMissing, StoreError):  # `edgeserve list` names the damaged ones
        return None


def _there(path: Path) -> Path:
    return next(one for one in (path, *path.absolute().parents) if one.exists())
