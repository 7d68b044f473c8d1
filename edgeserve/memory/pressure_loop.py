"""The thread that relieves memory pressure at an interval, and at once when a request finds memory tight."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from edgeserve.memory.accounts import Accounts

log = logging.getLogger("edgeserve.memory")


class PressureLoop:
    """Calls ``relieve`` every ``pressure_interval`` seconds until the accounts are closed."""

    def __init__(self, accounts: Accounts, relieve: Callable[[], None]) -> None:
        self._accounts = accounts
        self._relieve = relieve
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="edgeserve-governor", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Begin the next round now."""
        self._awake.set()

    def join(self) -> None:
        """Call after closing the accounts. Blocks until the running round is over."""
        self.wake()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        self._expect_all()
        while True:
            interval = self._accounts.policy.pressure_interval
            self._awake.wait(interval)
            self._awake.clear()
            if self._accounts.closing:
                return
            try:
                self._relieve()
            except Exception:
                log.exception("the pressure check failed; the next is in %g s", interval)

    def _expect_all(self) -> None:
        """Estimate every engine now, so that the first request need not wait for the estimate."""
        for entry in self._accounts:
            if self._accounts.closing:
                return
            try:
                entry.expect(self._accounts.peaks)
            except Exception:
                log.exception("%s could not be estimated ahead; its first request will try", entry.resident.spec.name)
