"""Samples for the timeline, from figures that the server has already: taking one reads neither memory nor an engine."""

from __future__ import annotations

from edgeserve.engine import Rung
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.entry import Entry
from edgeserve.memory.gauge import Gauge
from edgeserve.memory.pressure import Level
from edgeserve.memory.report import budget_mb, mb, space
from edgeserve.memory.timeline import Held, Sample


class Sampler:
    """Called on the thread of the probe, after each of its readings."""

    def __init__(self, accounts: Accounts, gauge: Gauge) -> None:
        self._accounts = accounts
        self._gauge = gauge
        self._level = Level.LOW

    def sample(self) -> None:
        """Append a sample to the timeline, and a happening when the level of pressure has changed."""
        now, timeline = self._gauge.latest(), self._accounts.timeline
        total, free = space(now.readings)
        process = now.readings.process
        sample = Sample(
            pressure=now.level,
            percent=round(now.percent),
            private=mb(process.own),
            mapped=mb(process.file),
            budget=budget_mb(now),
            available=mb(free),
            total=mb(total),
        )
        timeline.record(sample, self._held())
        if now.level is not self._level:
            before, self._level = self._level.name, now.level
            timeline.note("pressure", before=before, after=now.level.name, percent=sample.percent)

    def _held(self) -> dict[str, Held]:
        """All models. Models that map the same file show it once: at the first of them that has it in memory."""
        shown: set[str] = set()
        return {entry.resident.id: _held(entry, shown) for entry in self._accounts}


def _held(entry: Entry, shown: set[str]) -> Held:
    one = entry.resident
    if one.rung is Rung.COLD and not entry.active:  # it holds nothing; a look at its savings may read the disk
        return Held(Rung.COLD, 0, 0, one.leases, entry.uses)
    held = entry.held
    weights, mapped = str(one.spec.files.get("model", one.id)), held.mapped
    if mapped and weights in shown:
        mapped = 0
    elif mapped:
        shown.add(weights)
    return Held(one.rung, mb(held.private + held.device), mb(mapped), one.leases, entry.uses)
