"""The models that a device serves, by the names that requests may use. Pure bookkeeping; no engine is asked."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence

from edgeserve.dataclass import dataclass
from edgeserve.engine import Adapter, ModelSpec
from edgeserve.errors import NotConfigured
from edgeserve.jobs import ALL_JOBS, INFO, Job
from edgeserve.model_settings import ModelSettings
from edgeserve.residency.names import spellings


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of one model that concern its requests and its residency.

    Fields:
        stored      its name in the store, which requests may use, too
        aliases     further names, with ``*`` and ``?`` for any characters
        default     it serves the requests of its job that name no model
        pinned      neither idleness nor another model moves it down
        keep_alive  idle seconds until it steps down, infinite to stay; None: as configured for all
        by_name     it serves only requests that name it: another client asked for it, the owner did not configure it
    """

    stored: str = ""
    aliases: tuple[str, ...] = ()
    default: bool = False
    pinned: bool = False
    keep_alive: float | None = None
    by_name: bool = False

    @classmethod
    def of(cls, settings: ModelSettings) -> Terms:
        """The terms on which a model of these settings is served."""
        return cls(settings.model, settings.aliases, settings.default, settings.pinned, settings.idle_seconds)


class Directory:
    """Models by id. Only the event loop's thread changes it."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[ModelSpec, Terms]] = {}

    def add(self, spec: ModelSpec, terms: Terms) -> None:
        self._models[spec.id] = spec, terms

    def remove(self, model: str) -> None:
        self._models.pop(model, None)

    def arrange(self, order: Sequence[str]) -> None:
        """Take the order of these ids; others follow."""
        self._models = {model: self._models[model] for model in arranged(self._models, order)}

    def terms(self, model: str) -> Terms:
        return self._models[model][1]

    def of(self, jobs: Iterable[Job]) -> list[ModelSpec]:
        """The models of these jobs: job by job, and the default of each job first.

        The default is the one that says so, else the job's own table, else the first. A model that is served only by
        name is none, and stands last.
        """
        return [spec for job in jobs for spec, _ in sorted(self._with(job), key=_rank)]

    def only(self, jobs: Iterable[Job]) -> str | None:
        """Id of the one model that a request for ``jobs`` means most likely, before its name was read.

        None where several models do the first of these jobs that is configured. Models that are served only by name
        do not count.
        """
        found = [spec for spec in self.of(jobs) if not self.terms(spec.id).by_name]
        same_job = [spec for spec in found if spec.job == found[0].job]
        return found[0].id if len(same_job) == 1 else None

    def defaults(self) -> frozenset[str]:
        """Ids of the models that serve the requests of their job that name no model."""
        return frozenset(filter(None, (self._default(self.of([job])) for job in ALL_JOBS)))

    def find(self, name: str, jobs: Sequence[Job], *, patterns: bool = True) -> str | None:
        """Id of the model that ``name`` means among those of ``jobs``, in any case of letters.

        Ids come first, then names, names in the store, aliases, names of adapters, jobs, and patterns, each in the
        order of ``of``. An empty name means the first model, and a job its default. A name that no model has is read
        without its provider and its tag, too (``spellings``). None: no model has this name. ``patterns``: look at them.
        """
        candidates = self.of(jobs)
        if not name:
            return self._default(candidates)
        return next(filter(None, (self._named(one.lower(), candidates, patterns) for one in spellings(name))), None)

    def _named(self, wanted: str, candidates: Sequence[ModelSpec], patterns: bool) -> str | None:
        for names in (self._ids, self._names, self._stored_names, self._aliases, self._adapters):
            for spec in candidates:
                if wanted in (one.lower() for one in names(spec)):
                    return spec.id
        if (default := self._default(spec for spec in candidates if spec.job == wanted)) is not None:
            return default
        for spec in candidates if patterns else ():
            if any(fnmatch.fnmatchcase(wanted, alias.lower()) for alias in self._aliases(spec)):
                return spec.id
        return None

    def stand_in(self, jobs: Iterable[Job]) -> str | None:
        """The model that may answer for one that is not here: the default of the first of ``jobs`` with a model.

        None where several models do that job, and neither ``default`` nor the job's own table says which one it is.
        """
        for job in jobs:
            if found := [spec for spec in self.of([job]) if not self.terms(spec.id).by_name]:
                clear = len(found) == 1 or self.terms(found[0].id).default or found[0].id == job
                return found[0].id if clear else None
        return None

    def _default(self, candidates: Iterable[ModelSpec]) -> str | None:
        return next((spec.id for spec in candidates if not self.terms(spec.id).by_name), None)

    def names(self, model: str) -> tuple[str, ...]:
        """The name of a model, then its further names: aliases, and named adapters."""
        spec, terms = self._models[model]
        return tuple(dict.fromkeys((spec.name, *terms.aliases, *(one.name for one in spec.adapters if one.name))))

    def adapter(self, model: str, name: str) -> Adapter | None:
        """The adapter of a model that a request means by ``name``; None where it means the model itself."""
        spec = self._models[model][0]
        for wanted in map(str.lower, spellings(name)):
            if any(wanted == one.lower() for one in self._own_names(spec)):
                return None
            for adapter in spec.adapters:
                if wanted in (one.lower() for one in self._adapter_names(spec, adapter)):
                    return adapter
        return None

    def _own_names(self, spec: ModelSpec) -> Iterator[str]:
        for names in (self._ids, self._names, self._stored_names, self._aliases):
            yield from names(spec)

    def _adapters(self, spec: ModelSpec) -> Iterator[str]:
        for adapter in spec.adapters:
            yield from self._adapter_names(spec, adapter)

    def _adapter_names(self, spec: ModelSpec, adapter: Adapter) -> Iterator[str]:
        """Names of an adapter: its own, and that behind a name of its model, as in "model:adapter"."""
        if adapter.name:
            yield adapter.name
            yield from (f"{own}:{adapter.name}" for own in self._own_names(spec) if own)

    def _with(self, job: Job) -> list[tuple[ModelSpec, Terms]]:
        return [one for one in self._models.values() if one[0].job == job]

    def _ids(self, spec: ModelSpec) -> Iterator[str]:
        yield spec.id

    def _names(self, spec: ModelSpec) -> Iterator[str]:
        yield spec.name

    def _stored_names(self, spec: ModelSpec) -> Iterator[str]:
        yield self.terms(spec.id).stored

    def _aliases(self, spec: ModelSpec) -> Sequence[str]:
        return self.terms(spec.id).aliases


def not_configured(model: str) -> NotConfigured:
    """The error about a model, or a job without one, that is not served. ``model``: an id, or a job."""
    for job, one in INFO.items():
        if job == model:
            return NotConfigured(f"no {job} engine is configured on this device; add to models.toml:\n{one.how_to_add}")
    return NotConfigured(f"the model {model!r} is not served any more")


def arranged(models: Iterable[str], order: Sequence[str]) -> list[str]:
    """The ids of ``models`` in this order; others follow in their own order."""
    there = list(models)
    return [*(model for model in order if model in there), *(model for model in there if model not in order)]


def _rank(one: tuple[ModelSpec, Terms]) -> tuple[bool, bool, bool]:
    spec, terms = one
    return terms.by_name, not terms.default, spec.id != spec.job
