"""Moving engines down, verified: memory is read before and after each step, and compared with the expected bytes."""

from __future__ import annotations

import dataclasses
import logging

from edgeserve.engine import Rung
from edgeserve.figures.moves import Move
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import Amount
from edgeserve.memory.entry import Entry
from edgeserve.memory.history import StepRecord, in_mb, quantization
from edgeserve.memory.occupancy import Saving
from edgeserve.memory.resident import Moved, Refused
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")

VERIFIED_SHARE = 0.90
"""A step down that returns less than this share of the expected bytes is logged as a warning."""
NOISE = 2 * MB
"""Missing bytes that cause no warning, and bytes of requests beside a step: the server's own heap changes by as much.
"""


class Mover:
    """Any thread. Moves run on the calling thread."""

    def __init__(self, accounts: Accounts, probe: Probe) -> None:
        self._accounts = accounts
        self._probe = probe

    def step_down(self, entry: Entry, to: Rung, reason: str, *, leased: bool = False) -> StepRecord | None:
        """Move an engine down. None when it stands on ``to`` or below already, is in use, or failed to move.

        A failure is logged, not raised: it must not end the request or the round of relief that wanted the memory.
        ``leased`` as in ``Resident.step_down``."""
        one = entry.resident
        if one.rung <= to:
            return None
        with self._accounts.moving() as mark:
            held, began, gone = self._probe.read(), self._accounts.clock(), self._accounts.traffic.gone
            try:
                move = one.step_down(to, leased=leased)
            except Exception:
                log.exception("%s could not be moved down to %s", one.spec.name, to.name.lower())
                return None
            if isinstance(move, Refused):
                log.debug("%s stays %s: it is %s", one.spec.name, one.rung.name.lower(), move.reason)
                return None
            ended = self._accounts.clock()
            entry.leaving_seconds = ended - began
            now = self._probe.read()
            own = self._own(entry, move.held - move.left).total
            # A body that arrived meanwhile is no memory that the engine keeps.
            alone = self._accounts.unchanged_since(mark) and self._accounts.traffic.since(gone) <= NOISE
            record = StepRecord(
                job=one.spec.job,
                model=one.spec.name,
                quantization=quantization(one.spec),
                reason=reason,
                before=move.before,
                after=move.after,
                expected=entry.predict(move.before, move.after, own),
                freed=freed(held, now),
                timestamp=self._accounts.wall(),
                exact=alone and not entry.inexact,
            )
        self._record(entry, move, record, own)
        verified = Move(record.before, record.after, reason, began, ended, record.expected, record.freed)
        self._accounts.figures.moved(one.spec, verified)
        return record

    def shed(self, saving: Saving) -> bool:
        """Let an engine do with less. False when it offers as much as before: the plan continues without the saving.

        An engine at work stays as it is. What is saved may not be enough: others take memory meanwhile.
        """
        entry = self._accounts.find(saving.id)
        offered = entry.resident.savings().get(saving.kind, 0) if entry else 0
        if entry is None or not entry.resident.shed(saving.kind, saving.private):
            return False
        name, kind = entry.resident.spec.name, saving.kind.replace("_", " ")
        log.info("%s saves %.1f MB: %s", name, saving.private / MB, kind)
        self._accounts.timeline.note("saving", saving.id, what=saving.kind, saved_mb=in_mb(saving.private))
        if saving.kind != "prefix_cache":
            entry.reduce()
            entry.shrunk += saving.private if saving.kind == "context" else 0
        return entry.resident.savings().get(saving.kind, 0) < offered

    def _own(self, entry: Entry, amount: Amount) -> Amount:
        """The amount without mapped weights that another hot engine still uses: their pages stay resident."""
        weights = entry.resident.spec.files.get("model")
        others = (one.resident for one in self._accounts if one is not entry)
        shared = any(one.rung is Rung.HOT and one.spec.files.get("model") == weights for one in others)
        return dataclasses.replace(amount, mapped=0) if shared and weights else amount

    def _record(self, entry: Entry, move: Moved, record: StepRecord, own: int) -> None:
        """``own``: bytes that should have come back by the engine's figures, which an earlier step does not excuse."""
        with self._accounts.changed:
            if record.after is Rung.WARM and (not entry.inexact or not entry.warm.total):
                entry.warm = move.left - move.cached
            entry.seen, entry.parked_at = record.after, record.timestamp
            if record.exact:
                entry.subtract_kept(own - record.freed)
                entry.returned[record.before, record.after] = own, record.freed
            self._accounts.history.add(record)
            self._accounts.stir(progress=True)
        self._accounts.timeline.note(
            "step_down",
            entry.resident.id,
            reason=record.reason,
            before=record.before.name.lower(),
            after=record.after.name.lower(),
            expected_mb=in_mb(record.expected),
            freed_mb=in_mb(record.freed),
            exact=record.exact,
        )
        wrong = record.exact and own - record.freed > NOISE and record.freed < VERIFIED_SHARE * own
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
    """Bytes that came back to the system, on the host and on the accelerator.

    An accelerator of its own memory counts beside the host. On a unified one the larger figure counts: the process's
    share may include the memory of the GPU, or not."""
    host = max(0, before.process.total - after.process.total)
    old, new = before.accelerator, after.accelerator
    if old.has_own_memory:
        return host + max(0, new.free - old.free)
    return max(host, new.free - old.free) if old.unified and new.total == old.total else host
