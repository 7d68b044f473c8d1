"""Embeddings by a chat model: the mean of the last layer's rows of all tokens, scaled to length 1.

A text takes a slot of the engine's own context, and a few of its tokens are decoded in each step of the batch. So it
needs no memory of its own, and the answers under way continue.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from edgeserve.engine import Cancel
from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.whole_texts import unit
from edgeserve.messages import EmbeddingEvent

if TYPE_CHECKING:
    from edgeserve.engines.llama.batch import Batch
    from edgeserve.engines.llama.slot import Slot


def embed(
    batch: Batch, inputs: Sequence[Sequence[int]], cancel: Cancel, adapters: Active = (), salt: str = ""
) -> Iterator[EmbeddingEvent | None]:
    """One event for each input; None asks for a step of the batch. Between two inputs, others take the slot."""
    for tokens in inputs:
        yield from batch.seats.until_turn(cancel, salt)
        if not cancel.is_set():
            yield from _embed(batch, batch.take_empty(adapters, salt), tokens, cancel)
        if cancel.is_set():
            return


def _embed(batch: Batch, slot: Slot, tokens: Sequence[int], cancel: Cancel) -> Iterator[EmbeddingEvent | None]:
    mean, slot.text = Mean(), True
    try:
        while slot.cells < len(tokens):
            slot.job = functools.partial(_decode_piece, batch, slot, tokens, mean)
            while slot.job is not None and not cancel.is_set():
                yield None
            if cancel.is_set():
                return
            if slot.error is not None:
                raise slot.error
    finally:
        batch.give_back(slot)
    yield EmbeddingEvent(mean.unit(), len(tokens))  # a slow reader pauses the answer here, without a slot


def _decode_piece(batch: Batch, slot: Slot, tokens: Sequence[int], mean: Mean) -> None:
    """Decode the next of the tokens, and add their rows to the mean. Raises Busy and Waits.

    The text begins where there is room for all of it, so that it rarely waits with cells that others could use.
    """
    piece = tokens[slot.cells : slot.cells + batch.context.outputs]
    batch.seats.make_room(slot, len(tokens) - slot.cells, len(piece))
    rows = batch.context.embed(piece, slot.position, slot.sequence)
    if rows is None:
        raise batch.seats.no_room()
    if batch.spoilt.ended(slot, lambda: math.isnan(rows.sum())):
        return
    mean.add(rows, anew=not slot.cells)
    slot.position = slot.cells = slot.position + len(piece)


class Mean:
    """Mean of rows of numbers, added piece by piece."""

    def __init__(self) -> None:
        self._sum: Any = 0.0

    def add(self, rows: Any, *, anew: bool) -> None:
        """``anew``: forget what was added before."""
        self._sum = (0.0 if anew else self._sum) + rows.sum(axis=0, dtype="float64")

    def unit(self) -> bytes:
        """The direction of the mean; see ``unit``."""
        return unit(self._sum)
