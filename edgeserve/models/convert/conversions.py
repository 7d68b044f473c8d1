"""Conversions by the names that catalogue and manifests use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from edgeserve.models.convert import whisper, whisper_mlx
from edgeserve.models.convert.checkpoint import Progress


class Conversion(Protocol):
    """A conversion. ``FORMAT`` rises when the engine needs other files than before."""

    FORMAT: int

    def convert(self, checkpoint: Path, out: Path, progress: Progress | None = None) -> Mapping[str, Path]: ...


CONVERSIONS: Mapping[str, Conversion] = MappingProxyType({"whisper": whisper, "whisper_mlx": whisper_mlx})
