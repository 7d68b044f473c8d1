"""The memory that a model takes here: learned, else as its engine estimates it, else by its catalogue entry."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, Listed, ModelSpec
from edgeserve.errors import EdgeserveError
from edgeserve.hosts.steps import WORKER
from edgeserve.jobs import INFO
from edgeserve.memory.estimate import PEAK_PER_FILE_BYTE, vision_overhead
from edgeserve.memory.peaks import Peaks
from edgeserve.model_settings import pays
from edgeserve.models.entry import Entry
from edgeserve.models.stored import StoredModel
from edgeserve.named import find, make_engine

log = logging.getLogger("edgeserve.fit")

Origin = Literal["learned", "estimated", "catalogue", "size"]
"""Origin of a figure: learned when the model ran here, its engine's estimate, its shape, or the size of its files."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The memory of the hot engine while it answers one request, and the origin of the figure."""

    footprint: Footprint
    origin: Origin


def expected(
    entry: Entry,
    stored: StoredModel | None,
    peaks: Peaks,
    estimate: Callable[[ModelSpec], Footprint] = lambda spec: make_engine(spec).estimate(),
) -> Expected:
    """The first figure that there is. Blocks for a child process where llama.cpp lays a stored model out."""
    learned = peaks.highest(entry.job, entry.name) if stored else None
    if learned is not None:
        return Expected(learned, "learned")
    found = (_by_files(entry, stored, estimate) if stored else None) or by_entry(entry)
    return replace(found, footprint=in_its_home(entry, found.footprint))


def in_its_home(entry: Entry, footprint: Footprint) -> Footprint:
    """The footprint with the worker process that the engine gets, unless the settings say otherwise."""
    own = WORKER if entry.job != "vad" and pays(entry.job) else 0
    return replace(footprint, private=footprint.private + own)


def _by_files(entry: Entry, stored: StoredModel, estimate: Callable[[ModelSpec], Footprint]) -> Expected | None:
    """The engine's estimate; None for a damaged model, which `edgeserve list` names."""
    if stored.job == "vad":
        return None
    try:
        spec = ModelSpec(stored.job, stored.name, stored.engine, stored.files, options=stored.options)
        return Expected(estimate(spec), "estimated")
    except EdgeserveError as error:
        log.warning("the memory of %s is expected from the catalogue: %s", entry.name, error)
        return None


def by_entry(entry: Entry) -> Expected:
    """The figure for a model that was never pulled."""
    if entry.job == "vad":
        raise ValueError(f"{entry.name} has no engine")
    listed = Listed(entry.job, entry.sizes, entry.size_bytes, entry.parameters, entry.shape, entry.options)
    info = INFO[entry.job]
    own = info.expected and entry.engine == info.engine
    found: Footprint | None = find(info.expected)(listed) if own else None
    origin: Origin = "catalogue"
    if found is None:
        origin, private = "size", int(entry.size_bytes * (PEAK_PER_FILE_BYTE - 1))
        found = Footprint(mapped=entry.size_bytes, private=private)
    if info.pictures:
        projector = entry.sizes.get("mmproj", 0)
        picture = max(0, vision_overhead(entry.encoder, projector) - projector)
        found = replace(found, per_request=found.per_request + picture)
    return Expected(found, origin)
