"""Options of the speech-to-text engines, checked."""

from __future__ import annotations

from dataclasses import dataclass

from edgeserve.settings import key


@dataclass(frozen=True, slots=True)
class AsrOptions:
    """Keys of [asr] in models.toml that belong to the engines.

    - vad: the engine leaves silences out before it transcribes.
    - quantization: the form of the weights; for Whisper "auto", "none" or "int8" (engines/asr/whisper/files.py).
    - family: onnx-asr's name of the model type; empty for Whisper.
    """

    vad: bool = key(True)
    quantization: str = key("auto")
    family: str = key("")
