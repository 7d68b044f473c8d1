"""Options of the engine for speakers, checked."""

from __future__ import annotations

from edgeserve.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SpeakerOptions:
    """[speaker] in models.toml has no keys of its own."""
