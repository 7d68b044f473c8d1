"""Conversions by the names that catalogue and manifests use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from edgeserve.dataclass import dataclass
from edgeserve.named import find


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion, imported when it converts.

    Fields:
        function  import string of its function
        format    version of the files; it rises when the engine needs other files than before
    """

    function: str
    format: int

    def convert(
        self, checkpoint: Path, out: Path, progress: Callable[[str, float], None] | None = None
    ) -> Mapping[str, Path]:
        """Convert the checkpoint in a folder into the folder ``out``; returns the files by role. Raises StoreError."""
        files: Mapping[str, Path] = find(self.function)(checkpoint, out, progress)
        return files


CONVERSIONS: Mapping[str, Conversion] = MappingProxyType(
    {
        # Format 1 looked tokens up inside the decoder; format 2 had no int8 graphs; format 3 decoded window by window.
        "whisper": Conversion("edgeserve.models.convert.whisper:convert", 4),
        "ge2e": Conversion("edgeserve.models.convert.ge2e:convert", 1),
        "whisper_mlx": Conversion("edgeserve.models.convert.whisper_mlx:convert", 1),
    }
)
