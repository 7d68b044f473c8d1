"""Samples for the timeline, from figures that the server has already: taking one reads neither memory nor an engine."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.engine import Rung
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import NOTHING, Amount
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
        own, mapped = now.readings.unreclaimable, now.readings.process.file
        with self._accounts.changed:
            entries = tuple(self._accounts)
            device = self._accounts.device_held()
            held = _held(entries, max(0, own - self._accounts.base()))
        sample = Sample(
            pressure=now.level,
            percent=round(now.percent),
            private=mb(own + device),
            mapped=mb(mapped),
            budget=budget_mb(now),
            available=mb(free),
            total=mb(total),
        )
        timeline.record(sample, held)
        if now.level is not self._level:
            before, self._level = self._level.name, now.level
            timeline.note("pressure", before=before, after=now.level.name, percent=sample.percent)


def shares(parts: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Private bytes of ``room`` that each engine has. A part: bytes booked without open reservations, and with them.

    A way up and a request are booked before they have taken their memory. They get what the others leave.
    """
    standing = _within([least for least, _ in parts], room)
    coming = _within([most - least for least, most in parts], room - sum(standing))
    return [one + other for one, other in zip(standing, coming, strict=True)]


def _within(sizes: Sequence[int], room: int) -> list[int]:
    """The sizes, each made smaller by the same share where they are more than ``room`` together."""
    whole = sum(sizes)
    return [size * room // whole for size in sizes] if whole > room else list(sizes)


def _held(entries: Sequence[Entry], room: int) -> dict[str, Held]:
    """All models. They have at most ``room`` private bytes of the host together.

    Models that map the same file show it once: at the first of them that has it in memory.
    """
    booked = [_booked(entry) for entry in entries]
    private = shares([(standing.private, held.private) for standing, held in booked], room)
    shown: set[str] = set()
    return {
        entry.resident.id: _row(entry, held, own, shown)
        for entry, (_, held), own in zip(entries, booked, private, strict=True)
    }


def _booked(entry: Entry) -> tuple[Amount, Amount]:
    """Memory without open reservations, and with them. A cold engine has none; its savings may read the disk."""
    if entry.resident.rung is Rung.COLD and not entry.active:
        return NOTHING, NOTHING
    return entry.standing, entry.held


def _row(entry: Entry, held: Amount, private: int, shown: set[str]) -> Held:
    one, mapped = entry.resident, held.mapped
    weights = str(one.spec.files.get("model", one.id))
    if mapped and weights in shown:
        mapped = 0
    elif mapped:
        shown.add(weights)
    return Held(one.rung, mb(private + held.device), mb(mapped), one.leases, entry.uses)
