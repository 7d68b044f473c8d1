"""hibari: a small English voice distilled from Kokoro-82M.

The network predicts a spectrum for each 12.5 ms frame and ``hibari.dsp`` turns it into 24 kHz samples. The noise
component is seeded, so the same request gives the same audio.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgeserve.engine import ModelSpec
from engines import ort
from engines.tts_phonemes import Phonemizer

DEFAULT_VOICE = "heart"
SEED = 0
SPEEDS = (0.5, 2.0)
"""Range the network was trained for; beyond it the nearest is used."""


class Hibari:
    """Files: ``model``, voice heart; further voices of the family by their names. Raises EngineFailure."""

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        return [DEFAULT_VOICE, *(role for role in spec.files if role != "model")]

    def __init__(self, spec: ModelSpec) -> None:
        self._phonemizer = Phonemizer()
        self._sessions = {
            DEFAULT_VOICE if role == "model" else role: ort.session(path, threads=spec.threads, device=spec.device)
            for role, path in spec.files.items()
        }
        from hibari import dsp

        self._dsp = dsp
        self.sample_rate = int(dsp.SR)

    def pieces(self, text: str) -> Iterator[str]:
        return self._phonemizer.pieces(text)

    def say(self, piece: str, voice: str, speed: float) -> Any:
        import numpy

        ids = self._phonemizer.ids(piece)
        pace = min(max(speed, SPEEDS[0]), SPEEDS[1])
        inputs = {"ids": numpy.asarray([ids], numpy.int64), "speed": numpy.asarray([pace], numpy.float32)}
        frames = (one[0] for one in self._sessions[voice].run(None, inputs))
        return self._dsp.synth(*frames, numpy.random.default_rng(SEED))
