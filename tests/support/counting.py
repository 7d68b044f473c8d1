"""A context that only keeps count, for tests of slots and of what they decode next."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.disk import Disk
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.engines.llama.options import BATCH
from edgeserve.engines.llama.slot import Slot
from edgeserve.errors import EngineFailure


class CountingContext:
    """Keeps the tokens of every sequence; a cell for each, shared ones too."""

    def __init__(self, size: int, *, cuttable: bool = True) -> None:
        self.size = size
        self.batch = self.outputs = BATCH
        self.sequences = 256
        self.cuttable = cuttable
        self.held: dict[int, list[int]] = {}
        self.calls: list[list[Item]] = []
        self.active: tuple[tuple[int, float], ...] = ()
        self.applied: list[tuple[tuple[int, float], ...]] = []
        self.fails = self.refuses = False
        self.wiped = 0
        self.model = SimpleNamespace(path="counted.gguf")

    def pause_threads(self) -> None:
        """It has no threads."""

    def use(self, active: tuple[tuple[int, float], ...]) -> None:
        self.active = active

    def decode(self, items: Iterable[Item]) -> bool:
        wanted = list(items)
        assert 0 < len(wanted) <= self.batch
        if self.fails:
            raise EngineFailure("broken")
        if sum(map(len, self.held.values())) + len(wanted) > self.size:
            return False
        for item in wanted:
            tokens = self.held.setdefault(item.sequence, [])
            assert item.position == len(tokens)
            tokens.append(item.token)
        self.calls.append(wanted)
        self.applied.append(self.active)
        return True

    def spoilt(self, output: int) -> bool:
        return False

    def wipe(self) -> None:
        self.wiped += 1
        self.held.clear()

    def wait(self) -> None:
        """A call is computed when ``decode`` returns."""

    def clear(self, sequence: int) -> None:
        self.held.pop(sequence, None)

    def cut(self, sequence: int, kept: int) -> bool:
        if not self.cuttable and kept < len(self.held.get(sequence, ())):
            return False
        del self.held.setdefault(sequence, [])[kept:]
        return True

    def copy(self, source: int, target: int, length: int) -> None:
        self.held[target] = self.held[source][:length]

    def state_size(self, sequence: int) -> int:
        return len(self.held.get(sequence, ()))

    def save(self, sequence: int, memory: Any = None) -> Any:
        return bytearray(token % 256 for token in self.held[sequence])

    def restore(self, sequence: int, data: bytes | bytearray) -> bool:
        self.clear(sequence)
        if self.refuses or sum(map(len, self.held.values())) + len(data) > self.size:
            return False
        self.held[sequence] = list(data)
        return True


def batch_of(
    size: int = 1000,
    slots: int = 2,
    limit: int = 1000,
    *,
    cuttable: bool = True,
    whole: bool | None = None,
    disk: Disk | None = None,
    drafts: Drafts | None = None,
    beside: int = 0,
) -> tuple[Batch, CountingContext]:
    """``whole``: states serve whole prompts only, mostly because the context cannot cut either."""
    context: Any = CountingContext(size, cuttable=cuttable)
    saved = PrefixCache(limit, whole=not cuttable if whole is None else whole, disk=disk)
    return Batch(context, slots, saved, drafts, beside=beside), context


def prompt(seed: int, length: int = 100) -> list[int]:
    return random.Random(seed).choices(range(256), k=length)


def decode(batch: Batch, slot: Slot) -> None:
    while slot.waiting:
        batch.step()


def talk(batch: Batch, tokens: Sequence[int], said: int = 0, salt: str = "") -> int:
    """One conversation, alone; how many tokens a cache knew."""
    slot, known = batch.take(tokens, salt)
    for token in range(said):
        decode(batch, slot)
        batch.push(slot, token)
    decode(batch, slot)
    assert slot.tokens == [*tokens, *range(said)]
    batch.give_back(slot)
    return known
