"""Prompts with pictures for a context that only keeps count: a picture takes a cell for each of its tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.feed import feed
from edgeserve.engines.llama.projector import Chunk
from edgeserve.engines.llama.slot import Slot


class Seeing:
    """A projector that keeps the number of a picture's chunk in each cell."""

    def decode(self, context: Any, chunk: Chunk, sequence: int, position: int, *, logits: bool) -> int:
        for at in range(chunk.size):
            assert context.decode([Item(chunk.handle, position + at, sequence, logits)])
        return position + chunk.size


def looks(batch: Batch, slot: Slot, sizes: Sequence[int], cancel: threading.Event | None = None) -> Iterator[None]:
    """Read a prompt of chunks of these sizes, of which the negative ones are pictures."""
    chunks = [Chunk(at, abs(size), None if size < 0 else (at,) * size) for at, size in enumerate(sizes)]
    seeing: Any = Seeing()
    return feed(batch, slot, chunks, seeing, cancel or threading.Event())


def seen(sizes: Sequence[int]) -> list[int]:
    """The tokens of such a prompt."""
    return [at for at, size in enumerate(sizes) for _ in range(abs(size))]
