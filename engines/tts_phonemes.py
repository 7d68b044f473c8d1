"""hibari's phonemizer for every family that reads the misaki alphabet: English text to phonemes, cut into pieces."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

from edgeserve.errors import EngineFailure
from engines import ort

MAX_PHONEMES = 400
"""Longer sentences are cut at clauses, so that each piece of audio comes soon; the networks take 510 at most."""

_CLAUSE = re.compile(r"(?<=[,;:—])\s+")


class Phonemizer:
    """Lexicon, tagger and a small net for unknown words, whose session is ours. Raises EngineFailure."""

    def __init__(self, *, british: bool = False) -> None:
        if importlib.util.find_spec("hibari") is None:
            raise EngineFailure("English voices need a phonemizer: pip install 'edgeserve[starter]'")
        from hibari.g2p import G2P
        from hibari.g2p.oov import OOV
        from hibari.tts import ASSETS

        assets = Path(ASSETS)
        net = assets / ("oov_gb.onnx" if british else "oov.onnx")
        self._phonemize = G2P(oov=OOV(str(net), ort.session(net, threads=1)), british=british)
        self._ids: dict[str, int] = json.loads((assets / "vocab.json").read_text(encoding="utf-8"))

    def pieces(self, text: str) -> Iterator[str]:
        """Phonemes of one sentence or clause after the other; a text without anything to speak yields none."""
        from hibari.tts import Hibari

        for sentence in Hibari.split_sentences(text):
            phonemes = self._phonemize(sentence)
            if any(char.isalpha() for char in phonemes):  # punctuation alone has a rhythm, but says nothing
                yield from _clauses(phonemes)

    def ids(self, phonemes: str) -> list[int]:
        """Kokoro's ids, between the pads that its family expects."""
        return [0, *(self._ids[char] for char in phonemes if char in self._ids), 0]


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
