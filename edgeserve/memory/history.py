"""What was moved down, when, why, and what really came back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from edgeserve.engine import Job, Rung

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One verified step down. Bytes; ``timestamp`` in seconds since the epoch."""

    job: Job
    model: str
    reason: str
    before: Rung
    after: Rung
    expected: int
    freed: int
    timestamp: float

    @property
    def action(self) -> str:
        return "offloaded" if self.after is Rung.WARM else "unloaded"

    def as_json(self) -> dict[str, object]:
        return {
            "model_name": self.model,
            "model_type": self.job,
            "quantization": None,
            "reason": self.reason,
            "action": self.action,
            "expected_mb": round(self.expected / MB, 1),
            "memory_freed_mb": round(self.freed / MB, 1),
            "timestamp": self.timestamp,
        }


class History:
    """The last ``limit`` steps, and how many there ever were of each action."""

    def __init__(self, limit: int = 200) -> None:
        self._records: deque[StepRecord] = deque(maxlen=limit)
        self.counts: Counter[str] = Counter()

    def add(self, record: StepRecord) -> None:
        self._records.append(record)
        self.counts[record.action] += 1

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(tuple(self._records))
