"""The history of steps down: engine, time, reason, and the bytes that came back."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator

from edgeserve.dataclass import dataclass
from edgeserve.engine import ModelSpec, Rung
from edgeserve.jobs import Job
from edgeserve.units import MB


def in_mb(size: int) -> float:
    """To one place."""
    return round(size / MB, 1)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One verified step down. Sizes in bytes; ``timestamp`` in seconds since the epoch.

    ``exact`` is False when other engines took or returned memory at the same time: ``freed`` then includes theirs."""

    job: Job
    model: str
    quantization: str
    reason: str
    before: Rung
    after: Rung
    expected: int
    freed: int
    timestamp: float
    exact: bool = True

    @property
    def action(self) -> str:
        return "offloaded" if self.after is Rung.WARM else "unloaded"

    def as_json(self) -> dict[str, object]:
        """The shape of GET /memory/evictions (docs/api/memory.md)."""
        return {
            "model_name": self.model,
            "model_type": self.job,
            "quantization": self.quantization,
            "reason": self.reason,
            "action": self.action,
            "expected_mb": in_mb(self.expected),
            "memory_freed_mb": in_mb(self.freed),
            "exact": self.exact,
            "timestamp": self.timestamp,
        }


class History:
    """The last ``limit`` steps, and counts of all. The lock of the accounts guards it."""

    def __init__(self, limit: int = 200) -> None:
        self._records: deque[StepRecord] = deque(maxlen=limit)
        self.counts: Counter[str] = Counter()
        """offloaded, unloaded, restored, emergencies, stopped."""

    def add(self, record: StepRecord) -> None:
        self._records.append(record)
        self.counts[record.action] += 1

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(tuple(self._records))


QUANTIZATION = re.compile(r"(?i)(?<![a-z0-9])(i?q\d(?:_[a-z0-9]+)*|bf16|f(?:p|loat)?(?:16|32)|u?int[48])(?![a-z0-9])")


def quantization(spec: ModelSpec) -> str:
    """The quantization that the options name, else the names of model and files; "default" without either."""
    named = spec.options.get("quantization")
    if isinstance(named, str):
        return named
    found = (QUANTIZATION.search(text) for text in (spec.name, *(path.name for path in spec.files.values())))
    return next((match[1] for match in found if match), "default")
