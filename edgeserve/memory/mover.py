"""Moving engines down, verified: memory is read before and after, and what came back is compared with what should."""

from __future__ import annotations

import dataclasses
import logging

from edgeserve.engine import Rung
from edgeserve.errors import EngineFailure
from edgeserve.memory.accounts import Books
from edgeserve.memory.amount import Amount
from edgeserve.memory.entry import Entry, Moved, Refused
from edgeserve.memory.history import StepRecord, quantization
from edgeserve.memory.plan import Saving
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")

VERIFIED_SHARE = 0.90
"""A step down that returns less than this share of what was expected is warned about …"""
NOISE = 2 * MB
"""… unless no more than this is missing: the server's own heap moves by as much."""


class Mover:
    def __init__(self, books: Books, probe: Probe) -> None:
        self._books = books
        self._probe = probe

    def step_down(self, entry: Entry, to: Rung, reason: str) -> StepRecord | None:
        """Move an engine down on this thread. None when it stands there already, is in use, or failed to go."""
        one = entry.resident
        if one.rung <= to:
            return None
        with self._books.moving() as mark:
            held = self._probe.read()
            try:
                move = one.step_down(to)
            except EngineFailure:
                log.exception("%s could not be moved down to %s", one.spec.name, to.name.lower())
                return None
            if isinstance(move, Refused):
                log.debug("%s stays %s: it is %s", one.spec.name, one.rung.name.lower(), move.reason)
                return None
            now = self._probe.read()
            record = StepRecord(
                job=one.job,
                model=one.spec.name,
                quantization=quantization(one.spec),
                reason=reason,
                before=move.before,
                after=move.after,
                expected=self._own(entry, move.held - move.left).total,
                freed=freed(held, now),
                timestamp=self._books.wall(),
                exact=self._books.undisturbed(mark) and not entry.blurred,
            )
        self._record(entry, move, record)
        return record

    def shed(self, saving: Saving) -> None:
        """Let an engine do with less. It says no when it is at work; the plan then goes on without."""
        entry = self._books[saving.job]
        if entry.thrifty is None or not entry.thrifty.shed(saving.kind, saving.private):
            return
        name, kind = entry.resident.spec.name, saving.kind.replace("_", " ")
        log.info("%s saves %.1f MB: %s", name, saving.private / MB, kind)
        if saving.kind != "prefix_cache":
            entry.reduce()

    def _own(self, entry: Entry, amount: Amount) -> Amount:
        """Without the mapped weights that another hot engine still uses: their pages stay."""
        weights = entry.resident.spec.files.get("model")
        others = (one.resident for one in self._books if one is not entry)
        shared = any(one.rung is Rung.HOT and one.spec.files.get("model") == weights for one in others)
        return dataclasses.replace(amount, mapped=0) if shared and weights else amount

    def _record(self, entry: Entry, move: Moved, record: StepRecord) -> None:
        with self._books.changed:
            if record.after is Rung.WARM and (not entry.blurred or not entry.warm.total):
                entry.warm = move.left - move.cached
            entry.seen, entry.parked_at = record.after, record.timestamp
            if record.exact:
                entry.leave_behind(record.expected - record.freed)
            self._books.history.add(record)
            self._books.changed.notify_all()
        missing = record.expected - record.freed
        wrong = record.exact and missing > NOISE and record.freed < VERIFIED_SHARE * record.expected
        log.log(
            logging.WARNING if wrong else logging.INFO,
            "%s %s:%s from %s to %s, %s (freed %.1f MB of %.1f MB expected)",
            record.action.capitalize(),
            record.job,
            record.model,
            record.before.name.lower(),
            record.after.name.lower(),
            record.reason.replace("_", " "),
            record.freed / MB,
            record.expected / MB,
        )


def freed(before: Readings, after: Readings) -> int:
    """Bytes that came back: of the process's share, and of an accelerator's own memory. Of one that shares the
    machine's, the larger figure: the process's share may or may not count what lies there."""
    host = max(0, before.process.total - after.process.total)
    old, new = before.accelerator, after.accelerator
    if old.has_own_memory:
        return host + max(0, new.free - old.free)
    return max(host, new.free - old.free) if old.unified and new.total == old.total else host
