"""hibari: a small English voice distilled from Kokoro-82M; its phonemizer, our sessions.

The network predicts a spectrum for each 12.5 ms frame and ``hibari.dsp`` turns it into 24 kHz samples. The noise
component is seeded, so the same request gives the same audio.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.errors import EngineFailure
from engines import ort

DEFAULT_VOICE = "heart"
MAX_PHONEMES = 400
"""Longer sentences are cut at clauses, so that each piece of audio comes soon (the network's own limit)."""
PHONEMIZER_BYTES = 75 << 20
"""Measured: lexicon, tagger and tokenizer rules as Python objects."""
SEED = 0
MODEL_SPEEDS = (0.5, 2.0)
"""Range the network was trained for; beyond it the nearest is used."""

_CLAUSE = re.compile(r"(?<=[,;:—])\s+")


class Hibari:
    """Opens the graph, the phonemizer and its net for unknown words. Raises EngineFailure."""

    def __init__(self, spec: ModelSpec) -> None:
        if importlib.util.find_spec("hibari") is None:
            raise EngineFailure("the voice hibari needs its phonemizer: pip install 'edgeserve[starter]'")
        self._sessions = {
            DEFAULT_VOICE if role == "model" else role: ort.session(path, threads=spec.threads, device=spec.device)
            for role, path in spec.files.items()
        }
        from hibari import dsp
        from hibari.g2p import G2P
        from hibari.g2p.oov import OOV
        from hibari.tts import ASSETS

        assets = Path(ASSETS)
        net = assets / "oov.onnx"
        self._dsp = dsp
        self._phonemize = G2P(oov=OOV(str(net), ort.session(net, threads=1)))
        self._ids: dict[str, int] = json.loads((assets / "vocab.json").read_text(encoding="utf-8"))
        self.sample_rate = int(dsp.SR)

    def pieces(self, text: str) -> Iterator[str]:
        from hibari.tts import Hibari as Original

        for sentence in Original.split_sentences(text):
            phonemes = self._phonemize(sentence)
            if any(char.isalpha() for char in phonemes):  # punctuation alone has a rhythm, but says nothing
                yield from _clauses(phonemes)

    def say(self, piece: str, voice: str, speed: float) -> Any:
        import numpy

        ids = [0, *(self._ids[char] for char in piece if char in self._ids), 0]
        if len(ids) < 3:
            return numpy.zeros(0, numpy.float32)
        pace = min(max(speed, MODEL_SPEEDS[0]), MODEL_SPEEDS[1])
        inputs = {"ids": numpy.asarray([ids], numpy.int64), "speed": numpy.asarray([pace], numpy.float32)}
        frames = (one[0] for one in self._sessions[voice].run(None, inputs))
        return self._dsp.synth(*frames, numpy.random.default_rng(SEED))


def _clauses(phonemes: str) -> Iterator[str]:
    """The sentence, cut at clauses into pieces of at most MAX_PHONEMES where clauses allow it."""
    piece = ""
    for clause in _CLAUSE.split(phonemes) if len(phonemes) > MAX_PHONEMES else [phonemes]:
        if piece and len(piece) + len(clause) + 1 > MAX_PHONEMES:
            yield piece
            piece = clause
        else:
            piece = f"{piece} {clause}" if piece else clause
    if piece:
        yield piece
