"""The announcement of a port in the local network by zeroconf (DNS-SD), where its package is installed."""

from __future__ import annotations

import logging
import socket
from typing import Any

import edgeserve
from edgeserve.clients import LOOPBACK, client_of
from edgeserve.system.addresses import own_addresses

log = logging.getLogger("edgeserve.server")

KIND = "_wyoming._tcp.local."
"""Type of the service, which Home Assistant looks for."""
WEB = {"http": "_http._tcp.local.", "https": "_https._tcp.local."}
"""Types of the port for HTTP, by its scheme."""


def addresses(host: str) -> list[str]:
    """Addresses at which other machines reach a socket bound to ``host``; none for a loopback address."""
    if client_of(host) == LOOPBACK:
        return []
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return [host]
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError as error:
        log.info("this machine does not know its own addresses: %s", error)
        return []
    named = sorted({str(one[4][0]) for one in found if client_of(str(one[4][0])) != LOOPBACK})
    return named or own_addresses()  # Debian lets a machine's name stand for a loopback address


class Announcement:
    """Announces a port once, if other machines can reach it. ``kind``: type of the service."""

    def __init__(self, host: str, port: int, kind: str = KIND) -> None:
        self._host, self._port, self._kind = host, port, kind
        self._zeroconf: Any = None

    async def begin(self) -> None:
        """Announce the port. A network that refuses is a line in the log: the port can be named by hand."""
        found = addresses(self._host)
        if not found:
            return
        try:
            from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf
        except ImportError:
            log.info("not announced in the network: zeroconf is not installed (pip install 'edgeserve[zeroconf]')")
            return
        name = socket.gethostname().partition(".")[0] or "edgeserve"
        service = AsyncServiceInfo(
            self._kind,
            f"edgeserve-{name}.{self._kind}",
            port=self._port,
            parsed_addresses=found,
            properties={"version": edgeserve.__version__},
            server=f"{name}.local.",
        )
        try:
            self._zeroconf = AsyncZeroconf()
            await self._zeroconf.async_register_service(service, allow_name_change=True)
        except Exception as error:  # zeroconf has errors of its own, and none of them may stop the server
            log.warning("not announced in the network: %s", error)

    async def end(self) -> None:
        """Withdraw the announcement. Idempotent."""
        if self._zeroconf is not None:
            zeroconf, self._zeroconf = self._zeroconf, None
            await zeroconf.async_unregister_all_services()
            await zeroconf.async_close()
