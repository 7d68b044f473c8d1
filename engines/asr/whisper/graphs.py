"""Whisper's three graphs (edgeserve/models/convert/whisper.py): windows in, logits of their next tokens out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import FileIO
from typing import Any

from edgeserve.engines.asr.whisper.vocabulary import Vocabulary
from edgeserve.engines.onnx import session
from edgeserve.engines.onnx.crowd import Sessions
from edgeserve.errors import EngineFailure

MAX_POSITIONS = 448
FEW = 8
"""Tokens of a call whose activations are small: those of a text, or of a prompt without words."""

Audio = dict[str, Any]
"""Keys and values of windows, by input names of the decoder: float32 [b, heads, …]."""
Past = dict[str, Any]
"""Keys and values of the text so far, by input names of the decoder: float32 [b, heads, …], arrays or values of the
runtime."""


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

    The sessions of the encoder and of ``cross`` are opened with ``reuse``. Shapes are those of
    edgeserve/models/convert/whisper.py; b is the number of windows that are decoded together. Raises EngineFailure when
    the runtime fails.

    ``kept_beside``: tokens of the texts beside which the memory of the encoder's activations stays for the next window.
    Taken anew for each window, it costs a fault for each page.
    """

    def __init__(
        self, encoder: Sessions, cross: Sessions, decoder: Sessions, embeddings: Embeddings, kept_beside: int = 0
    ) -> None:
        self._encoder, self._cross, self._decoder, self._embeddings = encoder, cross, decoder, embeddings
        self._shapes = {one.name: one.shape[1:] for one in decoder.whole.get_inputs()}
        self._past = [name for name in self._shapes if name.startswith("past_")]
        self._present = [name.replace("past", "present") for name in self._past]
        outputs = {one.name: one.shape for one in decoder.whole.get_outputs()}
        self._vocabulary = int(outputs["logits"][1])
        self._logits: Any = ()
        self._kept_beside, self._keeps = kept_beside, False

    def places(self, count: int) -> Audio:
        """Room for the keys and values of so many windows. It takes memory as windows are listened to."""
        import numpy

        return {
            name: numpy.empty((count, *shape), numpy.float32)
            for name, shape in self._shapes.items()
            if name.startswith("cross_")
        }

    def listen(self, mel: Any, place: Audio) -> None:
        """Write what the decoder attends to, keys and values by its input names, to a place for one window.

        ``mel``: features [1, bands, 3000].
        """
        self._keeps = self._kept_beside > 0
        (states,) = session.run(self._encoder.now(), ["states"], {"mel": mel}, reuse=True, passing=self._keeps)
        session.run_bound(self._cross.now(), {"states": states}, place, reuse=True, passing=self._keeps)

    def no_past(self) -> Past:
        """The empty KV cache that a sequence starts with."""
        import numpy

        shapes = {name: [0 if size == "past" else size for size in self._shapes[name]] for name in self._past}
        return {name: numpy.zeros((1, *shape), numpy.float32) for name, shape in shapes.items()}

    def step(
        self, tokens: Sequence[Sequence[int]], places: Any, mask: Any, rows: Sequence[int], past: Past, audio: Audio
    ) -> tuple[Any, Past]:
        """Decode n tokens of each of b windows; returns logits [b, len(rows), vocabulary] and the new KV cache.

        The next call uses the array of logits again.

        Arguments:
            tokens  b sequences of n tokens each
            places  their positions in the text, int64 [b, n]
            mask    added to the scores, float32 [b, 1, n, past + n]
            rows    numbers of the tokens, of each window, whose logits are wanted
        """
        import numpy

        if len(tokens[0]) > FEW or mask.shape[-1] > self._kept_beside:
            self._return_kept()
        inputs = self._inputs(tokens, places, mask, rows)
        if len(self._logits) < len(tokens) * len(rows):
            self._logits = numpy.empty((len(tokens) * len(rows), self._vocabulary), numpy.float32)
        logits = self._logits[: len(tokens) * len(rows)]
        inputs |= {**past, **audio}
        present = session.run_bound(self._decoder.now(), inputs, {"logits": logits}, self._present)
        return logits.reshape(len(tokens), len(rows), -1), dict(zip(self._past, present, strict=True))

    def begin(self, tokens: Sequence[int], rows: Sequence[int], audio: Audio) -> tuple[Any, Past]:
        """Decode the first tokens of one window; returns logits [len(rows), vocabulary] and the KV cache."""
        logits, past = self.step([tokens], *_from_the_start(len(tokens)), rows, self.no_past(), audio)
        return logits[0], past

    def align(self, tokens: Sequence[int], audio: Audio) -> Any:
        """Attention of the alignment heads over a whole sequence of one window: [heads, len(tokens), 1500]."""
        self._return_kept()
        inputs = self._inputs([tokens], *_from_the_start(len(tokens)), [len(tokens) - 1])
        (found,) = session.run(self._decoder.now(), ["alignment"], {**inputs, **self.no_past(), **audio})
        return found[0]

    def end(self) -> None:
        """At the end of a request: return the memory that is kept for its next window."""
        self._logits = ()
        self._return_kept()

    def _return_kept(self) -> None:
        if self._keeps:
            self._keeps = False
            session.empty()

    def _inputs(self, tokens: Sequence[Sequence[int]], places: Any, mask: Any, rows: Sequence[int]) -> dict[str, Any]:
        import numpy

        embedded = self._embeddings.rows([token for one in tokens for token in one])
        return {
            "embedded": embedded.reshape(len(tokens), len(tokens[0]), -1),
            "positions": places,
            "mask": mask,
            "rows": numpy.array(rows, numpy.int64),
        }


def _from_the_start(count: int) -> tuple[Any, Any]:
    """Positions of the first tokens of one window, and their mask: each sees itself and those before it."""
    import numpy

    mask = numpy.zeros((1, 1, count, count), numpy.float32)
    if count > 1:
        mask[0, 0] = numpy.triu(numpy.full((count, count), -numpy.inf, numpy.float32), 1)
    return numpy.arange(count, dtype=numpy.int64)[None], mask


def detect_language(graphs: Graphs, audio: Audio, vocabulary: Vocabulary) -> str:
    """The likeliest language of one window; "en" for an English-only model."""
    if not vocabulary.languages:
        return "en"
    logits, _ = graphs.begin([vocabulary.start], [0], audio)
    return max(vocabulary.languages, key=lambda code: float(logits[0][vocabulary.languages[code]]))
