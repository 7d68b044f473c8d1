"""The numbers of the slots, by which clients name them (docs/decisions/0044-slots-by-number.md)."""

from __future__ import annotations

from edgeserve.engines.llama.slot import Slot


class Numbers:
    """The first ``count`` of ``slots`` have a number: their index. The others are beside them, and have none."""

    def __init__(self, slots: list[Slot], count: int) -> None:
        self._slots, self.count = slots, count

    @property
    def slots(self) -> list[Slot]:
        """The slots with a number, by that number."""
        return self._slots[: self.count]

    def of(self, slot: Slot) -> int:
        """The number of a slot; -1: none."""
        number = self._slots.index(slot)
        return number if number < self.count else -1

    def give(self, slot: Slot, number: int) -> None:
        """Give a slot another number; the slot that had it takes this one's. -1: it keeps its own.

        Nothing moves in the KV cache, and no other conversation leaves it. The counts of drafts belong to the number.
        """
        if number < 0:
            return
        slots, own = self._slots, self._slots.index(slot)
        other = slots[number]
        slots[own], slots[number] = other, slot
        slot.drafted, other.drafted = other.drafted, slot.drafted
        slot.accepted, other.accepted = other.accepted, slot.accepted

    def settle(self) -> None:
        """Give the numbers of empty slots to those beside them that hold something."""
        empty = [number for number, one in enumerate(self.slots) if not one.busy and not one.cells]
        taken = [slot for slot in self._slots[self.count :] if slot.busy or slot.cells]
        for slot, number in zip(taken, empty, strict=False):
            self.give(slot, number)
