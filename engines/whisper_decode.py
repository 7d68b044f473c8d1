"""The decode loop over Whisper's split graphs (edgeserve/convert/whisper.py): one window in, tokens out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeserve.engine import Cancel
from engines.whisper_text import Vocabulary, constrain

MAX_POSITIONS = 448


@dataclass(frozen=True, slots=True)
class Decoded:
    """One window's tokens, timestamps among them, with the figures that judge them."""

    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    no_speech_prob: float


class Cancelled(Exception):
    """The request was cancelled between two tokens."""


class Graphs:
    """The three sessions. Shapes as in edgeserve/convert/whisper.py; all calls on one thread."""

    def __init__(self, encoder: Any, cross: Any, decoder: Any, layers: int, heads: int) -> None:
        self._encoder, self._cross, self._decoder = encoder, cross, decoder
        self._layers = layers
        self._names = ["logits"] + [f"present_{part}_{index}" for index in range(layers) for part in "kv"]
        self._heads = heads
        self._width = int(decoder.get_inputs()[4].shape[2])

    def listen(self, mel: Any) -> dict[str, Any]:
        """Features [1, bands, 3000] → the keys and values that the decoder attends to, by input name."""
        states = self._encoder.run(["states"], {"mel": mel})[0]
        names = [f"cross_{part}_{index}" for index in range(self._layers) for part in "kv"]
        return dict(zip(names, self._cross.run(names, {"states": states}), strict=True))

    def no_past(self) -> dict[str, Any]:
        import numpy

        keys = numpy.zeros((1, self._heads, self._width, 0), numpy.float32)
        values = numpy.zeros((1, self._heads, 0, self._width), numpy.float32)
        return {f"past_{part}_{i}": keys if part == "k" else values for i in range(self._layers) for part in "kv"}

    def step(
        self, tokens: Sequence[int], offset: int, rows: Sequence[int], past: dict[str, Any], audio: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Decode ``tokens`` at position ``offset``; returns logits [len(rows), vocabulary] and the new past."""
        inputs = self._inputs(tokens, offset, rows)
        logits, *present = self._decoder.run(self._names, {**inputs, **past, **audio})
        renamed = (name.replace("present", "past") for name in self._names[1:])
        return logits, dict(zip(renamed, present, strict=True))

    def align(self, tokens: Sequence[int], audio: dict[str, Any]) -> Any:
        """Attention of the alignment heads over a whole sequence: [heads, len(tokens), 1500]."""
        inputs = self._inputs(tokens, 0, [len(tokens) - 1])
        return self._decoder.run(["alignment"], {**inputs, **self.no_past(), **audio})[0]

    @staticmethod
    def _inputs(tokens: Sequence[int], offset: int, rows: Sequence[int]) -> dict[str, Any]:
        import numpy

        count = len(tokens)
        mask = numpy.zeros((1, 1, count, offset + count), numpy.float32)
        if count > 1:
            mask[0, 0, :, offset:] = numpy.triu(numpy.full((count, count), -numpy.inf, numpy.float32), 1)
        return {
            "tokens": numpy.array([tokens], numpy.int64),
            "positions": numpy.arange(offset, offset + count, dtype=numpy.int64),
            "mask": mask,
            "rows": numpy.array(rows, numpy.int64),
        }


def decode(
    graphs: Graphs, audio: dict[str, Any], prompt: Sequence[int], words: Vocabulary, temperature: float, cancel: Cancel
) -> Decoded:
    """Greedy at temperature 0, else sampled with a fixed seed. Raises Cancelled within one token."""
    import numpy

    random = numpy.random.default_rng(0)
    start = len(prompt) - 1 - list(reversed(prompt)).index(words.start)
    logits, past = graphs.step(prompt, 0, [start, len(prompt) - 1], graphs.no_past(), audio)
    no_speech = float(_softmax(logits[0])[words.no_speech])
    said: list[int] = []
    total = 0.0
    row = logits[1]
    limit = min(MAX_POSITIONS // 2, MAX_POSITIONS - len(prompt))
    while True:
        if cancel.is_set():
            raise Cancelled
        constrain(row, said, words)
        token = int(row.argmax()) if temperature == 0 else _draw(row, temperature, random)
        total += float(row[token] - _log_sum(row))
        if token == words.end:
            break
        said.append(token)
        if len(said) >= limit:
            break
        logits, past = graphs.step([token], len(prompt) + len(said) - 1, [0], past, audio)
        row = logits[0]
    return Decoded(tuple(said), temperature, total / (len(said) + 1), no_speech)


def detect_language(graphs: Graphs, audio: dict[str, Any], words: Vocabulary) -> str:
    """The likeliest language of a multilingual model; "en" for the others."""
    if not words.languages:
        return "en"
    logits, _ = graphs.step([words.start], 0, [0], graphs.no_past(), audio)
    return max(words.languages, key=lambda code: float(logits[0][words.languages[code]]))


def _softmax(row: Any) -> Any:
    import numpy

    exponents = numpy.exp(row - row.max())
    return exponents / exponents.sum()


def _log_sum(row: Any) -> Any:
    import numpy

    highest = row.max()
    return highest + numpy.log(numpy.exp(row - highest).sum())


def _draw(row: Any, temperature: float, random: Any) -> int:
    return int(random.choice(len(row), p=_softmax(row.astype("float64") / temperature)))
