"""Names of models as Ollama writes them: ``name:tag``, where the tag may be left out."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.api import models
from edgeserve.errors import ModelNotFound, NotSupported
from edgeserve.jobs import ALL_JOBS, Job
from edgeserve.residency.pool import Pool

LATEST = "latest"
ABILITIES: dict[Job, str] = {"llm": "chat", "vision": "vision", "embedding": "embeddings"}
"""Words of Ollama for the first job that a request needs."""


def shown(name: str) -> str:
    """The name as lists show it: always with a tag, since clients compare ``asked + ":"`` with its beginning."""
    return name if ":" in name else f"{name}:{LATEST}"


def readings(asked: str) -> list[str]:
    """Names that ``asked`` may mean here, the likeliest first.

    "a:latest" also means "a"; "qwen3:0.6b" also means "qwen3-0.6b", as the catalogue writes it.
    """
    found = [asked]
    name, _, tag = asked.rpartition(":")
    if name and tag.lower() == LATEST:
        found.append(name)
    elif name and "/" not in tag:
        found.append(f"{name}-{tag}")
    return found


def choose(pool: Pool, asked: str, jobs: Sequence[Job]) -> str:
    """Id of the model of ``jobs`` that ``asked`` names; the default for an empty name.

    Raises ModelNotFound, and NotSupported where only a model of other jobs has the name.
    """
    asked = asked.strip()
    for name in readings(asked):
        if (found := pool.find(name, jobs)) is not None and found in pool.gates:
            return found
    if any(pool.find(name, ALL_JOBS) is not None for name in readings(asked) if name):
        raise NotSupported(f'"{asked}" does not support {ABILITIES.get(jobs[0], jobs[0])}', param="model")
    try:
        found = models.choose(pool, asked, jobs)
    except ModelNotFound:
        found = ""
    if found not in pool.gates:
        raise missing(pool, asked)
    return found


def missing(pool: Pool, asked: str) -> ModelNotFound:
    """The error about a model that nobody serves here. Clients look for its first words."""
    served = ", ".join(dict.fromkeys(spec.name for spec in pool.configured.values())) or "none"
    return ModelNotFound(f"model '{asked}' not found, try pulling it first; served here: {served}", param="model")
