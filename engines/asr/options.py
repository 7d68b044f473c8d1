"""Options of the speech-to-text engines, checked."""

from __future__ import annotations

from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.settings import key


@dataclass(frozen=True, slots=True)
class AsrOptions:
    """Keys of [asr] in models.toml that belong to the engines.

    - vad: the engine leaves silences out before it transcribes.
    - quantization: the form of the weights; for Whisper "auto", "none" or "int8" (engines/asr/whisper/files.py).
    - windows: windows of 30 s that Whisper decodes together, at most; "auto": as many as pay. 1 gives each window the
      text of the one before as its prompt.
    - family: onnx-asr's name of the model type; empty for Whisper.
    """

    vad: bool = key(True)
    quantization: str = key("auto")
    windows: int | Literal["auto"] = key("auto", low=1, high=16, special={"auto": "as many as pay"})
    family: str = key("")
