"""The way of an engine up to hot: memory is reserved first, then the host climbs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from edgeserve.engine import Rung
from edgeserve.memory.governor import Governor, Reservation
from edgeserve.memory.resident import Resident
from edgeserve.memory.terms import Terms
from edgeserve.residency.host import Host
from edgeserve.residency.work import Admitted


class WayUp:
    """``climb`` requires that the calling thread holds the engine; so do the others, for the sake of ``asking``."""

    def __init__(self, resident: Resident, host: Host, governor: Governor) -> None:
        self._resident = resident
        self._host = host
        self._governor = governor
        self._thread: int | None = None

    @property
    def asking(self) -> bool:
        """True on the thread that asks for memory now, and so holds the engine: it may make the engine do with less."""
        return self._thread == threading.get_ident()

    def reserve(self, terms: Terms) -> Reservation:
        """As ``Governor.reserve``, once all machines of the model answer. Raises Unreachable before anything moves."""
        self._check_nodes()
        with self._asking():
            return self._governor.reserve(self._resident, terms)

    def reserve_if_free(self) -> Reservation | None:
        """As ``Governor.reserve_if_free``. Raises Unreachable."""
        self._check_nodes()
        with self._asking():
            return self._governor.reserve_if_free(self._resident)

    def admit(self, admitted: Admitted, beside: bool) -> bool:
        """Reserve memory for one request, and climb.

        ``beside``: answers are under way. The engine is hot then, and False comes at once where memory is short.
        """
        work = admitted.work
        if beside:
            reservation = self._governor.reserve_at_once(self._resident, work.whole)
            work.kept_out = reservation is None and self._governor.has_room_in_place(self._resident)
            if reservation is not None:
                admitted.held.enter_context(reservation)
            return reservation is not None
        terms = Terms(work.cancel, work.arrived, work.whole, work.resumed)
        reservation = admitted.held.enter_context(self.reserve(terms))
        work.check_wanted()
        self.climb(reservation)
        return True

    def climb(self, reservation: Reservation) -> None:
        """Up to hot on reserved memory. An engine that fails on its way is closed."""
        try:
            self._host.climb(Rung.HOT)
        except Exception:
            self._host.close()
            raise
        self._governor.settle(reservation)

    def _check_nodes(self) -> None:
        if self._host.rung is not Rung.HOT:
            self._host.check_nodes(self._make_way)

    def _make_way(self) -> None:
        """Step down for the requests that wait for the engine's memory: this thread holds it, and nobody else can."""
        if self._governor.in_the_way(self._resident.spec):
            with self._asking():
                self._governor.step_down(self._resident, Rung.COLD, "memory_needed")

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = None
