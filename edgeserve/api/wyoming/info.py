"""``info``: the programs, models and voices. No model is loaded for it; Home Assistant waits for a second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import edgeserve
from edgeserve.api.wyoming.voices import listed
from edgeserve.engine import ModelSpec
from edgeserve.jobs import CHAT
from edgeserve.residency.pool import Pool

PROGRAM = "edgeserve"
"""The one program of each kind. Clients use the first program, whatever their user chose."""
UNKNOWN = ("en",)
"""Languages of a model that does not list its own. A program without languages is offered to nobody."""


def info(pool: Pool) -> dict[str, Any]:
    """The data of the event. A kind without a model has no program."""
    asr = [_model(spec, pool.languages(spec.id) or UNKNOWN) for spec in _served(pool, ("asr",))]
    tts = [_artefact(one.name, "") | {"languages": [one.language], "speakers": None} for one in listed(pool)]
    llm = [_model(spec, UNKNOWN) for spec in _served(pool, CHAT)]
    return {
        "asr": _program("asr", {"models": asr}, supports_transcript_streaming=True, requires_external_vad=True),
        "tts": _program("tts", {"voices": tts}, supports_synthesize_streaming=True),
        "handle": _program("handle", {"models": llm}, supports_handled_streaming=True, supports_home_control=False),
        **{kind: [] for kind in ("intent", "wake", "mic", "snd")},
    }


WORDS = {"asr": "speech to text", "tts": "text to speech", "handle": "conversation"}


def _served(pool: Pool, jobs: Iterable[Any]) -> list[ModelSpec]:
    """Models of these jobs, the default first."""
    return list(pool.directory.of(jobs))


def _program(kind: str, models: Mapping[str, list[dict[str, Any]]], **flags: bool) -> list[dict[str, Any]]:
    if not any(models.values()):
        return []
    return [_artefact(PROGRAM, f"{WORDS[kind]} with local models", edgeserve.__version__) | dict(models) | flags]


def _model(spec: ModelSpec, languages: Iterable[str]) -> dict[str, Any]:
    return _artefact(spec.name, "") | {"languages": list(languages)}


def _artefact(name: str, description: str, version: str | None = None) -> dict[str, Any]:
    who = {"name": "", "url": ""}
    return {"name": name, "attribution": who, "installed": True, "description": description, "version": version}
