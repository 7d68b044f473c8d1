"""Names of models as Ollama writes them: ``name:tag``, where the tag may be left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgeserve.api import models
from edgeserve.errors import ModelNotFound, NotSupported
from edgeserve.jobs import ALL_JOBS, Job
from edgeserve.residency.names import LATEST, spellings
from edgeserve.residency.pool import Pool

ABILITIES: dict[Job, str] = {"llm": "chat", "vision": "vision", "embedding": "embeddings"}
"""Words of Ollama for the first job that a request needs."""


def shown(name: str) -> str:
    """The name as lists show it: always with a tag, since clients compare ``asked + ":"`` with its beginning."""
    return name if ":" in name else f"{name}{LATEST}"


def readings(asked: str) -> Iterator[str]:
    """Names that ``asked`` may mean here, the likeliest first.

    "a:latest" also means "a"; "qwen3:0.6b" also means "qwen3-0.6b", as the catalogue writes it.
    """
    for one in spellings(asked):
        yield one
        name, _, tag = one.rpartition(":")
        if name and "/" not in tag:
            yield f"{name}-{tag}"


def find(pool: Pool, asked: str, jobs: Sequence[Job]) -> str | None:
    """Id of the model of ``jobs`` that ``asked`` names; None where no model has the name. Raises as ``Pool.find``."""
    found = (models.found_by_name(pool, name, jobs) for name in readings(asked))
    return next((one for one in found if one is not None and one in pool.gates), None)


def choose(pool: Pool, asked: str, jobs: Sequence[Job], *, stand_in: bool = True) -> str:
    """Id of the model of ``jobs`` that ``asked`` names; the default for an empty name.

    With ``stand_in``, a model may stand in for one that is not here, as in ``models.choose``. Raises ModelNotFound, and
    NotSupported where only a model of other jobs has the name.
    """
    asked = asked.strip()
    if asked and (found := find(pool, asked, jobs)) is not None:
        return found
    if asked and find(pool, asked, ALL_JOBS) is not None:
        raise NotSupported(f'"{asked}" does not support {ABILITIES.get(jobs[0], jobs[0])}', param="model")
    try:
        chosen = models.choose(pool, asked, jobs, stand_in=stand_in)
    except ModelNotFound:
        raise missing(pool, asked) from None
    if chosen not in pool.gates:  # the first of the jobs: it has no model
        raise missing(pool, asked)
    return chosen


def answered(pool: Pool, asked: str, model: str) -> str:
    """The name that an answer gives the model: the one that was asked for, or the public one of a stand-in."""
    asked = asked.strip()
    return asked if asked and find(pool, asked, ALL_JOBS) is not None else models.name(pool, model)


def missing(pool: Pool, asked: str) -> ModelNotFound:
    """The error about a model that nobody serves here. Clients look for its first words."""
    served = list(dict.fromkeys(spec.name for spec in pool.configured.values()))
    listed = ", ".join(served[: models.MOST_NAMED]) or "none"
    return ModelNotFound(f"model '{asked}' not found, try pulling it first; served here: {listed}", param="model")
