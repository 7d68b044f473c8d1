"""A prompt with pictures, read into its slot chunk by chunk."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
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
    left, tokens = chunks, _size(chunks)
    while not cancel.is_set() and (left or not slot.whole):
        if not slot.whole:
            left, read = chunks, functools.partial(batch.seats.make_room, slot, tokens)
        else:
            read = functools.partial(_decode, batch, slot, left[0], projector, _size(left))
            left = left[1:]
        text = tuple(itertools.takewhile(lambda chunk: chunk.tokens is not None, left))
        left = left[len(text) :]
        slot.job = functools.partial(_read, batch, slot, read, text)
        while (slot.job or slot.pending) and not cancel.is_set():
            yield
        if slot.error is not None:
            raise slot.error
    slot.whole = 0


def _read(batch: Batch, slot: Slot, read: Callable[[], None], text: Sequence[Chunk]) -> None:
    """Make room or decode a picture, as a job of the batch. The same step decodes the text behind it.

    Else each of both would wait for a piece of the other prompts. Raises what ``read`` raises.
    """
    read()
    if text and slot.whole:  # what adapters spoilt begins anew
        batch.push(slot, *(token for chunk in text for token in chunk.tokens or ()))


def _size(chunks: Sequence[Chunk]) -> int:
    return sum(chunk.size for chunk in chunks)


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
