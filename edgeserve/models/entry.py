"""Entries of the catalogue, and the engines of each kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.jobs import ENCODERS, INFO, MLX_WHISPER, Job
from edgeserve.models.sources.source import Source, UrlSource

Kind = Job | Literal["vad"]  # the detector of voice activity, which has no engine
RUNNERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {job: frozenset({one.engine, *one.other_engines}) for job, one in INFO.items()} | {"vad": frozenset({""})}
)
"""Import strings that a stored model of a kind may name; no other string is ever imported."""
FORMER: Mapping[str, str] = MappingProxyType(
    {engine.removeprefix("edgeserve."): engine for engines in RUNNERS.values() for engine in engines if engine}
    | {former: engine for one in INFO.values() for former, engine in one.former.items()}
)
"""Import strings that former versions wrote into manifests, with their names of today."""
OPTIONS = frozenset({"family", "pooling", "quantization", "repeat_penalty", "system", "temperature"})
"""Options that an entry may have. A manifest with another option is refused."""
DECIMAL_MB = 1_000_000
UNVERIFIED = "unverified: listed by public figures; never pulled where edgeserve is built"


@dataclass(frozen=True, slots=True)
class Entry:
    """One model.

    - ``checksums``: role → sha256, where known. ``sizes``: role → bytes, where known.
    - ``convert``: name of its conversion.
    - ``parameters``: numbers in the weights; 0 where unknown. ``shape``: numbers that decide the memory of the model,
      for its engine; empty where unknown. ``encoder``: its vision encoder, as memory/estimate.py names it.
    - ``verified``: the model was pulled and used where edgeserve is built.
    """

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
    sizes: Mapping[str, int] = field(default_factory=dict)
    parameters: int = 0
    shape: Mapping[str, int] = field(default_factory=dict)
    encoder: str = ""
    verified: bool = False

    @property
    def engine(self) -> str:
        """Import string of the engine; empty for a model that only accompanies others."""
        if self.job == "vad":
            return ""
        if self.convert == "whisper_mlx":
            return MLX_WHISPER
        source = self.sources[0]
        encoder = not isinstance(source, UrlSource) and "tokenizer" in source.members
        return ENCODERS[self.job] if encoder and self.job in ENCODERS else INFO[self.job].engine

    @property
    def source(self) -> str:
        return str(self.sources[0])


def for_mlx(entry: Entry) -> Entry:
    """The same checkpoint, converted for mlx-whisper. No machine that builds edgeserve has MLX's own hardware."""
    text = f"{entry.description.split(',')[0].split(':')[0]}, for MLX on Apple silicon (docs/apple.md)"
    return replace(entry, name=f"{entry.name}-mlx", description=text, convert="whisper_mlx", aliases=(), verified=False)
