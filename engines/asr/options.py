"""Options of the speech-to-text engines, checked."""

from __future__ import annotations

from dataclasses import dataclass

from edgeserve.settings import key


@dataclass(frozen=True, slots=True)
class AsrOptions:
    """Keys of [asr] in models.toml that belong to the engines.

    vad           silences are left out before the model listens
    quantization  which of the model's files are used; Whisper: "auto", "none", "int8" (engines/asr/whisper/files.py)
    family        onnx-asr's name of the model type; empty: Whisper
    """

    vad: bool = key(True)
    quantization: str = key("auto")
    family: str = key("")
