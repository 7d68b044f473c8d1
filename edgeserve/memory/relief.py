"""Relief of memory pressure: engines step down and caches are dropped, by the level of the pressure."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from edgeserve.errors import MemoryPressure
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.budget import prefix_cache_threshold
from edgeserve.memory.entry import Entry
from edgeserve.memory.gauge import Gauge, Judgement
from edgeserve.memory.mover import Mover
from edgeserve.memory.occupancy import Occupancy
from edgeserve.memory.optional_memory import room_for_states
from edgeserve.memory.pressure import Level, level_of, relief, used_percent
from edgeserve.memory.reservations import NOISE_SHARE
from edgeserve.memory.resident import cached
from edgeserve.system.probe import Probe
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")

QUIET_SECONDS = 1.0
"""A reservation under pressure wakes the pressure loop at most this often. So often does an answer clean up, or end,
and a client collect garbage."""


class Relief:
    """Any thread.

    ``defragment`` returns free pages and cached device memory to the system, and reads memory anew. ``end_helper`` ends
    the largest decoder of the client whose decoders hold most; False when there is none worth it.
    """

    def __init__(
        self,
        accounts: Accounts,
        probe: Probe,
        gauge: Gauge,
        mover: Mover,
        defragment: Callable[[], object],
        end_helper: Callable[[], bool],
    ) -> None:
        self._accounts = accounts
        self._probe = probe
        self._gauge = gauge
        self._mover = mover
        self._defragment, self._end_helper = defragment, end_helper
        self._emergency = threading.Lock()
        self.relieved_at = float("-inf")
        """Start of the last round, on the accounts' clock."""
        self._stopped_at = float("-inf")

    def check(self) -> None:
        """Called while an answer is made; takes microseconds below CRITICAL.

        At CRITICAL the largest decoders of files end, as far as they are the reason. Then all idle engines are closed
        and caches dropped. Raises MemoryPressure when that is not enough. For files and unread answers alone, that is
        done once in ``QUIET_SECONDS``: the answer continues beside them.
        """
        if self._is_urgent():
            with self._emergency:
                if self._is_urgent():  # another thread may have cleaned up meanwhile
                    self._clean_up()

    def relieve(self) -> None:
        """One round: drop prefix caches on a full machine, and move down the engines that the level asks for."""
        accounts, policy = self._accounts, self._accounts.policy
        self.relieved_at = accounts.clock()
        accounts.observe()
        readings = self._probe.read_quick()
        accounts.note_overhead(readings)
        now = self._gauge.judge(readings)
        used = 1 - readings.available / readings.total if readings.total else 1.0
        if used >= prefix_cache_threshold(readings.total, policy):
            self._drop_prefix_caches()
        if now.level is Level.CRITICAL:
            log.error("CRITICAL memory pressure! Usage: %.1f%%. Forcing aggressive eviction.", now.percent)
        with accounts.changed:
            steps = relief(now.level, accounts.occupancies(), accounts.clock(), policy)
        if steps and now.level is not Level.CRITICAL:
            log.warning("%s memory pressure: %.1f%%. Offloading idle models.", now.level.name, now.percent)
        for step in steps:
            if (entry := accounts.find(step.id)) is not None:
                self._mover.step_down(entry, step.to, "memory_pressure")
        self.bound_states(*(one for one in accounts if one.resident.leases))

    def bound_states(self, *entries: Entry) -> None:
        """Tell engines how many bytes of past conversations they may keep, before they take more of them."""
        accounts = self._accounts
        keeping = [one for one in entries if "prefix_cache" in one.resident.savings()]
        if not keeping or not accounts.policy.enabled:
            return
        now = self._gauge.latest()
        with accounts.changed:
            passing, residents = accounts.passing, accounts.occupancies(now.readings)
            base = accounts.base() - passing
            room = room_for_states(residents, now.readings, now.budget, accounts.policy, base=base, passing=passing)
        for entry in keeping:
            entry.resident.keep(max(0, entry.cached.private + room) // MB * MB)

    def drop_prefix_cache(self, entry: Entry) -> None:
        """Drop the prefix cache of an engine that has long been idle; nothing happens while it is in use."""
        self._drop(entry.occupancy(busy=False, spent=frozenset()))

    def _is_urgent(self) -> bool:
        now = self._gauge.latest()
        if now.level is not Level.CRITICAL or self._accounts.clock() - self._stopped_at < QUIET_SECONDS:
            return False  # the memory of an answer comes back a moment after its end
        return self._accounts.clock() - self.relieved_at >= QUIET_SECONDS or not self._is_passing(now)

    def _clean_up(self) -> None:
        """Raises MemoryPressure when memory stays CRITICAL after everything idle has gone."""
        # The latest reading may be old.
        now = self._without_helpers(self._gauge.judge(self._probe.read_quick()))
        if now.level is not Level.CRITICAL:
            return
        counts = self._accounts.history.counts
        counts["emergencies"] += 1
        self._drop_prefix_caches()
        self.relieve()
        self._defragment()
        now = self._without_helpers(self._gauge.latest())  # now they may be what is left
        if now.level is Level.CRITICAL and not self._is_passing(now):
            self._stopped_at = self._accounts.clock()
            counts["stopped"] += 1
            self._accounts.timeline.note("answer_stopped", percent=round(now.percent))
            raise MemoryPressure(
                f"memory ran critical while the answer was made: {now.readings.unreclaimable // MB} MB are used, "
                f"{now.percent:.0f}% of the budget of {now.budget.usable // MB} MB ({now.budget.winner}), and no idle "
                "engine is left to close. Try a shorter prompt, a smaller context, or free memory on the device",
                retry_after=self._accounts.policy.pressure_interval,
            )

    def _without_helpers(self, now: Judgement) -> Judgement:
        """End decoders, one by one, while they are the reason; returns the state of memory after that."""
        while self._is_for_helpers(now) and self._end_helper():
            now = self._gauge.judge(self._probe.read_quick())
        return now

    def _is_for_helpers(self, now: Judgement) -> bool:
        """Whether the answer must stop unless decoders end. They end for nothing that stays without them."""
        if now.level is not Level.CRITICAL or self._is_passing(now):
            return False
        return self._is_passing(now, self._accounts.helpers())

    def _is_passing(self, now: Judgement, ended: int = 0) -> bool:
        """Whether memory is CRITICAL for what is no reason to stop this answer:

        - files, their decoders, unread answers and stored ones, which are bounded, and may be others'
        - conversations that engines at work keep for later, which are bounded, too
        - what hot engines take beyond their measure, up to its noise: a plan may fill the budget up to CRITICAL

        No more of them is left out than half of the memory that the budget leaves to the system.
        ``ended``: bytes of decoders that do not count, as if they had ended.
        """
        accounts = self._accounts
        with accounts.changed:
            noise = int(NOISE_SHARE * accounts.booked().private)
        kept = accounts.stored() + sum(cached(entry.resident).private for entry in accounts)
        spare = accounts.passing - ended + noise + kept
        left_out = min(spare, max(0, now.readings.total - now.budget.usable) // 2)
        percent = used_percent(now.readings, now.budget, left_out + ended)
        return level_of(percent, now.readings, self._accounts.policy) is not Level.CRITICAL

    def _drop_prefix_caches(self) -> None:
        accounts = self._accounts
        with accounts.changed:  # models come and go meanwhile
            idle = [one for one in accounts.occupancies() if one.may_step_down(accounts.clock(), accounts.policy)]
        for one in idle:
            self._drop(one)

    def _drop(self, one: Occupancy) -> None:
        for saving in one.savings:
            if saving.kind == "prefix_cache":
                self._mover.shed(saving)
