"""Texts as vectors: the mean of what the model's last layer makes of each token, of length 1.

It runs in the engine's own context, as a conversation of which nothing is kept, a few tokens in each step of the batch:
so it takes no memory of its own, and the answers under way go on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.errors import Busy
from edgeserve.messages import EmbeddingEvent
from engines.llama.batch import Batch
from engines.llama.slot import Slot


def embed(batch: Batch, inputs: Sequence[Sequence[int]], cancel: Cancel) -> Iterator[EmbeddingEvent | None]:
    """One event for each input; None each time that the batch must take a step first."""
    for tokens in inputs:
        yield from _embed(batch, tokens, cancel)
        if cancel.is_set():
            return


def _embed(batch: Batch, tokens: Sequence[int], cancel: Cancel) -> Iterator[EmbeddingEvent | None]:
    slot, mean, size = batch.take_empty(), Mean(), batch.context.outputs
    try:
        for at in range(0, len(tokens), size):
            slot.job = functools.partial(_look, batch, slot, tokens[at : at + size], mean)
            while slot.job is not None and not cancel.is_set():
                yield None
            if cancel.is_set():
                return
            if slot.refused is not None:
                raise slot.refused
        yield EmbeddingEvent(mean.unit(), len(tokens))
    finally:
        batch.give_back(slot)


def _look(batch: Batch, slot: Slot, tokens: Sequence[int], mean: Mean) -> None:
    """Decode some tokens more."""
    context = batch.context
    rows = context.embed(tokens, slot.position, slot.sequence) if batch.make_room(len(tokens)) else None
    if rows is None:
        text = f"the context of {context.size} tokens is taken by answers under way; try again later"
        slot.refused = Busy(text, retry_after=5)
        return
    slot.position = slot.cells = slot.position + len(tokens)
    mean.add(rows)


class Mean:
    """Of rows of numbers, as they come."""

    def __init__(self) -> None:
        self._sum: Any = 0.0

    def add(self, rows: Any) -> None:
        self._sum = self._sum + rows.sum(axis=0, dtype="float64")

    def unit(self) -> bytes:
        return unit(self._sum)


def unit(vector: Any) -> bytes:
    """Its direction: float32 little-endian. All zeros stay so."""
    import numpy

    length = float(numpy.linalg.norm(vector))
    return bytes((vector / (length or 1.0)).astype("<f4").tobytes())
