"""Addresses of nodes as people write them: ``box2``, ``box2:8080``, ``http://10.0.0.2:8080``, ``[fd00::2]:8080``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError

PORT = 8080
SCHEMES = ("http", "https")
WRITTEN = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
NUMBERS = re.compile(r"[0-9.]+")
"""A host that no resolver is asked for: an IPv4 address, or a mistake in one."""
LONGEST = 270
"""Characters of an address: a name of 255 (RFC 1035), its scheme and its port."""


@dataclass(frozen=True, slots=True, order=True)
class Peer:
    """The address of one node. ``host``: an IPv6 address has its brackets."""

    host: str
    port: int = PORT
    scheme: str = "http"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}"


def bracketed(host: str) -> str:
    """The host as an address with a port begins: an IPv6 address has brackets there (RFC 3986, 3.2.2)."""
    return f"[{host}]" if ":" in host else host


def read_peer(text: str) -> Peer:
    """Raises ConfigError."""
    found = WRITTEN.fullmatch(text) if len(text) <= LONGEST else None
    port = int(found["port"] or PORT) if found else 0
    if found is None or port not in range(1, 1 << 16) or not _is_host(found["host"]):
        raise ConfigError(f"{text[:200]!r} is no address of a node: expected such as box2:8080 or http://10.0.0.2:8080")
    return Peer(found["host"].lower(), port, found["scheme"] or "http")


def read_peers(texts: Iterable[str]) -> tuple[Peer, ...]:
    """All addresses in their order. Raises ConfigError, also for an address that comes twice."""
    peers = tuple(read_peer(one) for one in texts)
    for at, one in enumerate(peers):
        if one.address in {other.address for other in peers[:at]}:
            raise ConfigError(f"the node {one.address} is named twice")
    return peers


def _is_host(host: str) -> bool:
    """Whether an address in brackets or of numbers alone is one. The resolver judges names."""
    try:
        if host.startswith("["):
            ipaddress.IPv6Address(host[1:-1])
        elif NUMBERS.fullmatch(host):
            ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
