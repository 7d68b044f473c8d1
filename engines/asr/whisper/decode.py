"""The decode loop over Whisper's three graphs (edgeserve/models/convert/whisper.py): one window in, tokens out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.errors import Cancelled, EngineFailure
from engines.asr.whisper.vocabulary import Vocabulary, constrain
from engines.onnx import session

MAX_POSITIONS = 448
GREEDY = 1e-4
"""Temperatures below this choose the likeliest token: dividing by the smallest of them would overflow."""
CANCELLED = "the request was cancelled while the audio was transcribed"


@dataclass(frozen=True, slots=True)
class Decoded:
    """One window's tokens, with timestamps, and the figures that the result is judged by."""

    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    no_speech_prob: float


class Embeddings:
    """Rows of a float32 matrix [vocabulary, d] inside a file. Each row is read alone: a token needs one of 50,000."""

    def __init__(self, file: FileIO, offset: int, width: int) -> None:
        self._file = file
        self._offset, self._row = offset, 4 * width

    def rows(self, tokens: Sequence[int]) -> Any:
        """float32 [len(tokens), d]. Raises EngineFailure when the file has become shorter."""
        import numpy

        read = (os.pread(self._file.fileno(), self._row, self._offset + token * self._row) for token in tokens)
        found = b"".join(read)
        if len(found) != len(tokens) * self._row:
            raise EngineFailure(f"{self._file.name}: ends within the embeddings; verify or pull the model again")
        return numpy.frombuffer(found, numpy.float32).reshape(len(tokens), -1)


class Graphs:
    """The three sessions and the token embeddings. All calls come from one thread.

    The session of the encoder is opened with ``reuse``. Shapes are those of edgeserve/models/convert/whisper.py. Raises
    EngineFailure when the runtime fails.
    """

    def __init__(self, encoder: Any, cross: Any, decoder: Any, embeddings: Embeddings) -> None:
        import numpy

        self._encoder, self._cross, self._decoder, self._embeddings = encoder, cross, decoder, embeddings
        self._audio = [one.name for one in cross.get_outputs()]
        shapes = {one.name: one.shape for one in decoder.get_inputs()}
        self._past = [name for name in shapes if name.startswith("past_")]
        self._present = ["logits"] + [name.replace("past", "present") for name in self._past]
        self._nothing = {
            name: numpy.zeros([0 if size == "past" else size for size in shapes[name]], numpy.float32)
            for name in self._past
        }

    def listen(self, mel: Any) -> dict[str, Any]:
        """Features [1, bands, 3000] → the keys and values that the decoder attends to, by the decoder's input names."""
        (states,) = session.run(self._encoder, ["states"], {"mel": mel}, reuse=True)
        return dict(zip(self._audio, session.run(self._cross, self._audio, {"states": states}), strict=True))

    def no_past(self) -> dict[str, Any]:
        """The empty KV cache that a sequence starts with."""
        return self._nothing

    def step(
        self, tokens: Sequence[int], offset: int, rows: Sequence[int], past: dict[str, Any], audio: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Decode ``tokens`` at position ``offset``; returns logits [len(rows), vocabulary] and the new KV cache."""
        inputs = self._inputs(tokens, offset, rows)
        logits, *present = session.run(self._decoder, self._present, {**inputs, **past, **audio})
        return logits, dict(zip(self._past, present, strict=True))

    def align(self, tokens: Sequence[int], audio: dict[str, Any]) -> Any:
        """Attention of the alignment heads over a whole sequence: [heads, len(tokens), 1500]."""
        inputs = self._inputs(tokens, 0, [len(tokens) - 1])
        return session.run(self._decoder, ["alignment"], {**inputs, **self.no_past(), **audio})[0]

    def _inputs(self, tokens: Sequence[int], offset: int, rows: Sequence[int]) -> dict[str, Any]:
        import numpy

        count = len(tokens)
        mask = numpy.zeros((1, 1, count, offset + count), numpy.float32)
        if count > 1:
            mask[0, 0, :, offset:] = numpy.triu(numpy.full((count, count), -numpy.inf, numpy.float32), 1)
        return {
            "embedded": self._embeddings.rows(tokens)[None],
            "positions": numpy.arange(offset, offset + count, dtype=numpy.int64),
            "mask": mask,
            "rows": numpy.array(rows, numpy.int64),
        }


def decode(
    graphs: Graphs,
    audio: dict[str, Any],
    prompt: Sequence[int],
    vocabulary: Vocabulary,
    temperature: float,
    cancel: Cancel,
) -> Decoded:
    """Greedy at temperatures near 0, else sampled with a fixed seed. Raises Cancelled within one token."""
    import numpy

    random = numpy.random.default_rng(0)
    start = len(prompt) - 1 - list(reversed(prompt)).index(vocabulary.start)
    logits, past = graphs.step(prompt, 0, [start, len(prompt) - 1], graphs.no_past(), audio)
    no_speech = float(_softmax(logits[0])[vocabulary.no_speech])
    said: list[int] = []
    total = 0.0
    row = logits[1]
    limit = min(MAX_POSITIONS // 2, MAX_POSITIONS - len(prompt))
    while True:
        if cancel.is_set():
            raise Cancelled(CANCELLED)
        constrain(row, said, vocabulary)
        token = int(row.argmax()) if temperature < GREEDY else _draw(row, temperature, random)
        total += float(row[token] - _log_sum(row))
        if token == vocabulary.end:
            break
        said.append(token)
        if len(said) >= limit:
            break
        logits, past = graphs.step([token], len(prompt) + len(said) - 1, [0], past, audio)
        row = logits[0]
    return Decoded(tuple(said), temperature, total / (len(said) + 1), no_speech)


def detect_language(graphs: Graphs, audio: dict[str, Any], vocabulary: Vocabulary) -> str:
    """The likeliest language of the audio; "en" for an English-only model."""
    if not vocabulary.languages:
        return "en"
    logits, _ = graphs.step([vocabulary.start], 0, [0], graphs.no_past(), audio)
    return max(vocabulary.languages, key=lambda code: float(logits[0][vocabulary.languages[code]]))


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
