"""Kokoro-82M: one network, voices as tables of style vectors; hibari's phonemizer writes its alphabet.

A voice is float32 [510, 256]: the style for a text of so many phonemes. Its name begins with the language: "a" for
American, "b" for British English (hexgrad/kokoro).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.errors import EngineFailure
from engines import ort
from engines.onnx_prepare import prepared
from engines.tts_phonemes import Phonemizers

STYLE_WIDTH = 256


class Kokoro:
    """Files: ``model``, and one for each English voice by its name (af_heart, bm_george, …). Raises EngineFailure."""

    sample_rate = 24_000
    max_phonemes = 100
    session_bytes = 16 << 20
    per_request = 120 << 20
    """Measured: 91 MB for 100 phonemes, 6 s of audio, which small machines need longer than that to compute."""

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        return [role for role in spec.files if role[0] in "ab" and role[1:3] in ("f_", "m_")]

    @staticmethod
    def british(voice: str) -> bool:
        return voice.startswith("b")

    @staticmethod
    def graphs(spec: ModelSpec) -> list[Path]:
        return [spec.files["model"]] if "model" in spec.files else []

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        names = self.voices(spec)
        if "model" not in spec.files or not names:
            raise EngineFailure(f"{spec.name} needs a model and English voices (af_…, am_…, bf_…, bm_…); pull it again")
        self._styles = {name: _style(spec.files[name]) for name in names}
        graph = prepared(spec.files["model"], device=spec.device)
        self._session = graph.session(threads=spec.threads, device=spec.device)
        # Exports call their first input "tokens" (kokoro-onnx) or "input_ids" (onnx-community).
        self._tokens = str(self._session.get_inputs()[0].name)
        self._phonemizers = Phonemizers(folder, {self.british(name) for name in names})
        self.mapped = [*self._phonemizers.mapped, *graph.data]

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        return self._phonemizers[self.british(voice)].pieces(text, limit)

    def say(self, piece: str, voice: str, speed: float) -> Any:
        import numpy

        ids = self._phonemizers[self.british(voice)].ids(piece)
        styles = self._styles[voice]
        style = styles[min(len(ids) - 2, len(styles) - 1)].reshape(1, STYLE_WIDTH)
        inputs = {self._tokens: numpy.asarray([ids], numpy.int64), "style": style}
        return ort.run(self._session, None, {**inputs, "speed": numpy.asarray([speed], numpy.float32)})[0].ravel()


def _style(path: Path) -> Any:
    import numpy

    table = numpy.fromfile(path, "<f4") if path.is_file() else numpy.empty(0)
    if not len(table) or len(table) % STYLE_WIDTH:
        raise EngineFailure(f"{path}: not a voice of Kokoro ({table.nbytes} bytes); pull the model again")
    return table.reshape(-1, STYLE_WIDTH)
