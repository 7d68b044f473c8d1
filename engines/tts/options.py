"""Options of the text-to-speech engines, checked."""

from __future__ import annotations

from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.settings import key


@dataclass(frozen=True, slots=True)
class TtsOptions:
    """Keys of [tts] in models.toml that belong to the engines.

    - voice: the voice of requests that name none; empty for the first voice of the model.
    - family: the type of the model; the catalogue sets it for its models.
    """

    voice: str = key("")
    family: Literal["hibari", "kokoro", "piper"] = key("hibari")
