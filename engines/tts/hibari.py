"""hibari: one small network for each voice predicts spectral frames, and engines/tts/spectrum.py computes samples.

The phonemizer comes from the package. Sessions and signal processing are our own, so that edgeserve controls their
memory. The noise is seeded, so that the same request gives the same audio with the same number of threads. Another
number rounds otherwise, 34 dB below the voice, and the load of the machine chooses it (engines/onnx/crowd.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.engines.onnx import session
from edgeserve.engines.onnx.crowd import Crowd
from edgeserve.engines.onnx.prepare import prepared
from edgeserve.engines.tts import pulses, spectrum
from edgeserve.engines.tts.phonemes import Phonemizers, ReadByHibari
from edgeserve.engines.tts.spectrum import BINS

DEFAULT_VOICE = "heart"
BRITISH = frozenset({"emma", "fable"})
SEED = 0
KEPT_IDS = 102
"""Longest piece, in ids, whose activations are kept for the next piece. Most sentences are shorter."""
KEPT_FOR_ONE = 130 << 10
"""Bytes of kept activations for each id, measured."""


class Hibari(ReadByHibari):
    """Files: ``model`` (voice "heart"), and one for each other voice by its name. Raises EngineFailure."""

    sample_rate = pulses.RATE
    max_phonemes = 200
    rows = True
    session_bytes = 4 << 20
    kept = KEPT_IDS * KEPT_FOR_ONE
    """Kept activations save page faults in each sentence (docs/decisions/0016-constants-of-the-speech-engines.md)."""
    per_request = 18 << 20
    """Measured on a long text of pieces of 194 phonemes, 11 s of audio each: 17 MiB. One more is for a session with
    fewer threads (engines/onnx/crowd.py)."""

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        return [_voice(role) for role in spec.files]

    @staticmethod
    def parts(voice: str) -> list[str]:
        return [voice]

    @staticmethod
    def load(spec: ModelSpec) -> None:
        import numpy.random  # noqa: F401 - for the noise; its 1.5 MB never return, so they count as the runtime's

        ReadByHibari.load(spec)

    @staticmethod
    def british(voice: str) -> bool:
        return voice in BRITISH

    @staticmethod
    def graphs(spec: ModelSpec) -> list[Path]:
        return list(spec.files.values())

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        graphs = {_voice(role): prepared(path, device=spec.device, rows=self.rows) for role, path in spec.files.items()}
        self.crowd = Crowd(spec.threads)
        self._sessions = {
            voice: graph.sessions(self.crowd, device=spec.device, reuse=True) for voice, graph in graphs.items()
        }
        self._noise = spectrum.Noise(SEED)
        self._phonemizers = Phonemizers(folder, {self.british(voice) for voice in graphs})
        self.mapped = [*self._phonemizers.mapped, *(path for graph in graphs.values() for path in graph.data)]

    def say(self, piece: str, voice: str, speed: float, beside: bool = False) -> Iterator[Any]:
        import numpy

        ids = self._phonemizers[self.british(voice)].ids(piece)
        inputs = {"ids": numpy.asarray([ids], numpy.int64), "speed": numpy.asarray([speed], numpy.float32)}
        keep = len(ids) * KEPT_FOR_ONE if len(ids) <= KEPT_IDS else 0
        outputs = session.run(self._sessions[voice].now(busy=beside), None, inputs, reuse=True, keep=keep)
        return spectrum.samples(_frames([one[0] for one in outputs]), self._noise)


def _frames(outputs: list[Any]) -> spectrum.Frames:
    """Frames from the network's outputs: rows [F, 3005], or five times columns [601, F]; then the pitch."""
    *spectral, pitch = outputs
    if len(spectral) == 1:
        parts = [spectral[0][:, start : start + BINS] for start in range(0, spectral[0].shape[1], BINS)]
    else:
        parts = [one.T for one in spectral]
    return spectrum.Frames._make([*parts, pitch])


def _voice(role: str) -> str:
    return DEFAULT_VOICE if role == "model" else role
