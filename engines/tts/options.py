"""Options of the text-to-speech engines, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgeserve.settings import key


@dataclass(frozen=True, slots=True)
class TtsOptions:
    """Keys of [tts] in models.toml that belong to the engines.

    voice   voice of requests that name none; empty: the first of the model's
    family  type of the model; the catalogue knows it
    """

    voice: str = key("")
    family: Literal["hibari", "kokoro", "piper"] = key("hibari")
