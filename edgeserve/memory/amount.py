"""An amount of memory, by what the system can do about it."""

from __future__ import annotations

from dataclasses import dataclass

from edgeserve.engine import Footprint


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes: ``mapped`` from files and droppable, ``private`` to us, ``device`` on an accelerator's own memory."""

    mapped: int = 0
    private: int = 0
    device: int = 0

    @property
    def host(self) -> int:
        return self.mapped + self.private

    @property
    def total(self) -> int:
        return self.mapped + self.private + self.device

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.mapped + other.mapped, self.private + other.private, self.device + other.device)

    def __sub__(self, other: Amount) -> Amount:
        """What is left, nothing below zero."""
        return Amount(
            max(0, self.mapped - other.mapped), max(0, self.private - other.private), max(0, self.device - other.device)
        )


NOTHING = Amount()


def standing(footprint: Footprint) -> Amount:
    """What an engine holds whether or not a request runs."""
    return Amount(footprint.mapped, footprint.private, footprint.device)


def request(footprint: Footprint) -> Amount:
    """What one request adds."""
    return Amount(private=footprint.per_request)
