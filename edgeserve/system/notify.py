"""Words to the service manager systemd, over the socket that it names (sd_notify(3))."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger("edgeserve.system")

MICROSECONDS = 1_000_000


class Notifier:
    """Tells systemd about this process.

    Variables:
        NOTIFY_SOCKET  path of the socket; "@" begins an abstract name
        WATCHDOG_USEC  microseconds without a sign of life after which systemd restarts the service
        WATCHDOG_PID   the process that is watched; missing: this one
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        microseconds = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_seconds = int(microseconds) / MICROSECONDS if name and meant and microseconds.isdigit() else 0.0
        """Longest time between two signs of life; 0: nobody watches."""

    def __bool__(self) -> bool:
        return bool(self._address)

    def tell(self, *words: str) -> None:
        """Send words such as ``READY=1``. A manager that takes none is a line in the log."""
        if not self._address:
            return
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as link:
                link.setblocking(False)
                link.sendto("\n".join(words).encode(), self._address)
        except OSError as error:
            log.warning("systemd was not told %s: %s", " ".join(words), error)
