"""An amount of memory, divided by how the system can get it back."""

from __future__ import annotations

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes: ``mapped`` from files and droppable, ``private`` to us, ``device`` in an accelerator's own memory."""

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
        """The remainder; a part that would be negative is 0."""
        return Amount(
            max(0, self.mapped - other.mapped), max(0, self.private - other.private), max(0, self.device - other.device)
        )


NOTHING = Amount()


def without_requests(footprint: Footprint) -> Amount:
    """Memory that an engine holds while no request runs."""
    return Amount(footprint.mapped, footprint.private, footprint.device)


def per_request(footprint: Footprint) -> Amount:
    """Memory that one request adds."""
    return Amount(private=footprint.per_request)
