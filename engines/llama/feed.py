"""A prompt with pictures, read into its slot chunk by chunk."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgeserve.engine import Cancel

if TYPE_CHECKING:
    from edgeserve.engines.llama.batch import Batch
    from edgeserve.engines.llama.projector import Chunk, Projector
    from edgeserve.engines.llama.slot import Slot

LAST = -1
"""Index of the logits after a picture: the only output of the last call (see Slot.output)."""


def feed(batch: Batch, slot: Slot, chunks: Sequence[Chunk], projector: Projector, cancel: Cancel) -> Iterator[None]:
    """Decode the chunks in steps of the batch; yields None for each. A cancel takes effect between steps.

    It begins where there is room for all of them, and anew where the batch has taken its cells (``Swapper.drop``).
    """
    read, tokens = 0, sum(chunk.size for chunk in chunks)
    while not cancel.is_set() and (read < len(chunks) or not slot.whole):
        if not slot.whole:
            read, slot.job = 0, functools.partial(batch.seats.make_room, slot, tokens)
        else:
            _read(batch, slot, chunks[read:], projector)
            read += 1
        while (slot.job or slot.pending) and not cancel.is_set():
            yield
        if slot.error is not None:
            raise slot.error
    slot.whole = 0


def _read(batch: Batch, slot: Slot, chunks: Sequence[Chunk], projector: Projector) -> None:
    """Let the coming steps decode the first of the chunks that are left."""
    first, left = chunks[0], sum(chunk.size for chunk in chunks)
    if first.tokens is not None:
        batch.push(slot, *first.tokens)
    else:
        slot.job = functools.partial(_decode, batch, slot, first, projector, left)


def _decode(batch: Batch, slot: Slot, chunk: Chunk, projector: Projector, left: int) -> None:
    """Decode a picture, as a job of the batch. Raises Busy and Waits for lack of room, and EngineFailure.

    ``left``: cells of this chunk and of those behind it, which have room before the picture is decoded.
    """
    batch.seats.make_room(slot, left)
    last = left == chunk.size
    logits = last or batch.spoilt.looks
    position = projector.decode(batch.context, chunk, slot.sequence, slot.position, logits=logits)
    if batch.spoilt.ended(slot, lambda: batch.context.spoilt(LAST)):
        return
    slot.position = position
    slot.cells += chunk.size
    slot.output = LAST if last else None
