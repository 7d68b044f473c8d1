"""Attendants of the server. The server calls them when it is ready, once a second while it runs, and at its end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from edgeserve.activity import Activity
from edgeserve.announcement import Announcement
from edgeserve.errors import ConfigError
from edgeserve.models.disk import FULL
from edgeserve.models.served import ServedList
from edgeserve.system.notify import Notifier

if TYPE_CHECKING:
    from edgeserve.fit.idle import IdleTuning
    from edgeserve.keys.ring import Keyring
    from edgeserve.residency.pool import Pool
    from edgeserve.tls.certificate import Certificate
    from edgeserve.tls.self_signed import SelfSigned

log = logging.getLogger("edgeserve.server")

RENEWAL_SECONDS = 3600.0
"""Time between two looks at the end of a certificate."""


class Attendant:
    """An attendant that does nothing."""

    async def begin(self) -> None:
        """The server accepts requests."""

    def look(self, server: Activity) -> None:
        """Called about once a second, on the event loop's thread. Never waits."""

    def end_begins(self) -> None:
        """The server begins to end."""

    async def end(self) -> None:
        """The server accepts no more requests. Idempotent."""

    def drained(self) -> None:
        """No answer is under way any more, and nobody looks at the server again. Idempotent."""


class Systemd(Attendant):
    """Tells systemd the state of the server, and that it lives.

    A server with an engine that fails for good gives no more signs of life: a restart is what helps.
    """

    def __init__(self, notifier: Notifier, clock: Callable[[], float] = time.monotonic) -> None:
        self._notifier = notifier
        self._clock = clock
        self._told = clock()

    async def begin(self) -> None:
        self._notifier.tell("READY=1", "STATUS=answers requests")

    def look(self, server: Activity) -> None:
        seconds, now = self._notifier.watchdog_seconds, self._clock()
        if seconds and now - self._told >= seconds / 4 and not server.failing:
            self._told = now
            self._notifier.tell("WATCHDOG=1")

    def end_begins(self) -> None:
        self._notifier.tell("STOPPING=1", "STATUS=ends after the answers under way")


class IdleExit(Attendant):
    """Ends a server that nobody has asked for ``seconds``."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since = clock()
        self._asked = -1
        self._ended = False

    def look(self, server: Activity) -> None:
        now = self._clock()
        if server.busy or server.asked != self._asked:
            self._asked, self._since = server.asked, now
        elif now - self._since >= self._seconds and not self._ended:
            self._ended = True
            log.info("nobody asked for %g s: the server ends (idle_exit)", self._seconds)
            server.end_idle()


class Tuner(Attendant):
    """Measures the models while nobody uses the server. The pool calls ``asked`` when a request comes."""

    def __init__(self, tuning: IdleTuning) -> None:
        self.asked = tuning.stop
        self._look = tuning.look

    @classmethod
    def of(cls, pool: Pool) -> Tuner:
        from edgeserve.fit.idle import IdleTuning

        tuner = cls(IdleTuning(lambda: pool.configured.values(), pool.governor.room))
        pool.asked = tuner.asked
        return tuner

    def look(self, server: Activity) -> None:
        self.asked() if server.busy else self._look()

    def end_begins(self) -> None:
        self.asked()


class Revocation(Attendant):
    """Reads the file of keys again when it changes, so that silent connections end with their key."""

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring

    def look(self, server: Activity) -> None:
        self._ring.look()


class Served(Attendant):
    """Keeps the list of served models in the store, so that no other process removes them. ``folders``: their names."""

    def __init__(self, root: Path, folders: Callable[[], Iterable[str]]) -> None:
        self._list = ServedList(root)
        self._folders = folders
        self._ended = self._told = False

    async def begin(self) -> None:
        self._keep()

    def look(self, server: Activity) -> None:
        self._keep()

    def _keep(self) -> None:
        if self._ended:
            return
        try:
            self._list.keep(self._folders())
            self._told = False
        except OSError as error:
            self._ended = error.errno not in FULL  # a store that this process may only read; a full one has room later
            if not self._told:
                log.info("other processes are not told which models are in use: %s", error)
            self._told = True

    def drained(self) -> None:
        self._list.end()


class Renewal(Attendant):
    """Reads the certificate again when its files change, and renews the server's own one before its end."""

    def __init__(
        self, certificate: Certificate, own: SelfSigned | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._certificate = certificate
        self._own = own
        self._clock = clock
        self._renewed = clock()

    def look(self, server: Activity) -> None:
        if self._own is not None and self._clock() - self._renewed >= RENEWAL_SECONDS:
            self._renewed = self._clock()
            # Once a year it takes as long as openssl does. A later look finds the new file.
            threading.Thread(target=_renew, args=[self._own], name="edgeserve certificate", daemon=True).start()
        self._certificate.look()


def _renew(own: SelfSigned) -> None:
    try:
        own.renew()
    except ConfigError as error:
        log.error("the certificate is not renewed: %s", error.message)


class Announcing(Attendant):
    """Announces the port in the local network."""

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement

    async def begin(self) -> None:
        await self._announcement.begin()

    async def end(self) -> None:
        await self._announcement.end()
