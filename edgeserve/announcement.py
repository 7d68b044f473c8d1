"""The announcement of a port in the local network by zeroconf (DNS-SD), where its package is installed."""

from __future__ import annotations

import logging
import socket
from typing import Any

import edgeserve
from edgeserve.clients import LOOPBACK, client_of

log = logging.getLogger("edgeserve.server")

KIND = "_wyoming._tcp.local."
"""Type of the service, which Home Assistant looks for."""


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
    return sorted({str(one[4][0]) for one in found if client_of(str(one[4][0])) != LOOPBACK})


class Announcement:
    """Announces a port once, if other machines can reach it."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
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
            KIND,
            f"edgeserve-{name}.{KIND}",
            port=self._port,
            parsed_addresses=found,
            properties={"version": edgeserve.__version__},
            server=f"{name}.local.",
        )
        try:
            self._zeroconf = AsyncZeroconf()
            await self._zeroconf.async_register_service(service, allow_name_change=True)
        except (OSError, RuntimeError) as error:
            log.warning("not announced in the network: %s", error)

    async def end(self) -> None:
        """Withdraw the announcement. Idempotent."""
        if self._zeroconf is not None:
            zeroconf, self._zeroconf = self._zeroconf, None
            await zeroconf.async_unregister_all_services()
            await zeroconf.async_close()
