"""Kokoro-82M: one network, and voices as tables of style vectors. hibari's phonemizer writes Kokoro's alphabet.

A voice is float32 [510, 256]: row n is the style of a text of n phonemes. A voice's name begins with its language: "a"
for American, "b" for British English (hexgrad/kokoro).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.engines.onnx import session
from edgeserve.engines.onnx.prepare import prepared
from edgeserve.engines.tts.phonemes import Phonemizers, ReadByHibari
from edgeserve.errors import EngineFailure, InvalidRequest

STYLE_WIDTH = 256
ROW_BYTES = 4 * STYLE_WIDTH
PART = re.compile(r"(\w+)(?::(\d{1,3}(?:\.\d{1,6})?))?", re.ASCII)
MAX_WEIGHT = 100


class Kokoro(ReadByHibari):
    """Files: ``model``, and one for each English voice by its name (af_heart, bm_george, …). Raises EngineFailure."""

    sample_rate = 24_000
    max_phonemes = 100
    rows = False
    kept = 0
    session_bytes = 16 << 20
    per_request = 120 << 20
    """Measured: 91 MB for 100 phonemes, 6 s of audio."""

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        return [role for role in spec.files if role[0] in "ab" and role[1:3] in ("f_", "m_")]

    @staticmethod
    def parts(voice: str) -> dict[str, float]:
        return blend(voice)

    @staticmethod
    def british(voice: str) -> bool:
        """A blend has the accent of the voice with the largest share."""
        shares = blend(voice)
        return max(shares, key=shares.__getitem__).startswith("b")

    @staticmethod
    def graphs(spec: ModelSpec) -> list[Path]:
        return [spec.files["model"]] if "model" in spec.files else []

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        names = self.voices(spec)
        if "model" not in spec.files or not names:
            raise EngineFailure(f"{spec.name} needs a model and English voices (af_…, am_…, bf_…, bm_…); pull it again")
        self._styles = {name: _checked(spec.files[name]) for name in names}
        graph = prepared(spec.files["model"], device=spec.device)
        self._session = graph.session(threads=spec.threads, device=spec.device)
        # Exports call their first input "tokens" (kokoro-onnx) or "input_ids" (onnx-community).
        self._tokens = str(self._session.get_inputs()[0].name)
        self._phonemizers = Phonemizers(folder, {self.british(name) for name in names})
        self.mapped = [*self._phonemizers.mapped, *graph.data]

    def say(self, piece: str, voice: str, speed: float, beside: bool = False) -> Iterator[Any]:
        import numpy

        ids = self._phonemizers[self.british(voice)].ids(piece)
        shares = blend(voice).items()
        style = sum(share * _style(self._styles[name], len(ids) - 2) for name, share in shares)
        inputs = {self._tokens: numpy.asarray([ids], numpy.int64), "style": style.astype(numpy.float32)}
        yield session.run(self._session, None, {**inputs, "speed": numpy.asarray([speed], numpy.float32)})[0].ravel()


def blend(voice: str) -> dict[str, float]:
    """Voices and their shares, which add up to 1. Raises InvalidRequest.

    "af_heart" is one voice, "af_heart+am_adam" is half of each, and "af_heart:0.7,am_adam:0.3" gives weights.
    """
    weights: dict[str, float] = {}
    for part in re.split("[+,]", voice):
        match = PART.fullmatch(part.strip())
        weight = float(match[2] or 1) if match else 0.0
        if match is None or not 0 < weight <= MAX_WEIGHT:
            text = f"the voice {voice!r} is no blend: write af_heart+am_adam, or af_heart:0.7,am_adam:0.3 with weights"
            raise InvalidRequest(f"{text} above 0 and at most {MAX_WEIGHT}", param="voice")
        weights[match[1]] = weights.get(match[1], 0.0) + weight
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _checked(path: Path) -> Path:
    size = path.stat().st_size if path.is_file() else 0
    if not size or size % ROW_BYTES:
        raise EngineFailure(f"{path}: not a voice of Kokoro ({size} bytes); pull the model again")
    return path


def _style(path: Path, length: int) -> Any:
    """The row for so many phonemes, or the last row; float32 [1, 256]. A request reads one row of a table of 0.5 MB."""
    import numpy

    try:
        row = min(length, path.stat().st_size // ROW_BYTES - 1)
        return numpy.fromfile(path, "<f4", STYLE_WIDTH, offset=row * ROW_BYTES).reshape(1, STYLE_WIDTH)
    except (OSError, ValueError) as error:  # ValueError: the file has become shorter
        raise EngineFailure(f"{path}: the voice cannot be read any more ({error}); pull the model again") from error
