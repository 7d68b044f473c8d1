"""The client that a request comes from, and the groups that it shares with others."""

from __future__ import annotations

import contextvars
import functools
import ipaddress
from dataclasses import field
from enum import Enum

from edgeserve.dataclass import dataclass

LOOPBACK = "loopback"
"""One client for all loopback addresses: any local program may use any of them."""
NETWORK = 64
"""Bits of an IPv6 network that counts as one client (RFC 6177)."""
SITE = 48
"""Bits of the largest IPv6 network that one home or office gets (RFC 6177): 65,536 such networks."""

Groups = tuple[tuple[str, ...], ...]
"""The groups of one client, the widest first. The last group is the client itself."""


class Idle(Enum):
    """The group of a client that has nothing under way, by its index in ``Groups``."""

    CLIENT = -1
    KEY = 0


@dataclass(frozen=True, slots=True)
class Client:
    """A client.

    Fields:
        key   its key; empty where the server asks for none
        sole  no other key is in force, so its key tells no clients apart
    """

    key: str = ""
    address: str = ""
    sole: bool = field(default=False, compare=False)  # its sessions stay its own when another key comes

    @property
    def owner(self) -> Client:
        """The owner of the client's sessions: every client with the same key, else every client at the address."""
        return Client(self.key) if self.key else self

    @property
    def groups(self) -> Groups:
        """All clients with the same key; among them, those of the same network.

        The network counts beside the key, since a whole household may use one key. Where all clients have the same key,
        or none, their site stands for it.
        """
        key = "" if self.sole else self.key
        return (key or _site(self.group[1]),), self.group

    @property
    def group(self) -> tuple[str, str]:
        """The smallest group, which is the client itself: its key and its network."""
        return self.key, client_of(self.address)


NOBODY = Client()
"""The client of work that no request asks for."""
current: contextvars.ContextVar[Client] = contextvars.ContextVar("client", default=NOBODY)
"""The client of the request that the running code serves."""


@functools.lru_cache(1024)
def client_of(peer: str) -> str:
    """The client of an address: an IPv6 network of 64 bits, all of 127.0.0.0/8, or the address itself."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return LOOPBACK
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, NETWORK), strict=False))


@functools.lru_cache(1024)
def _site(client: str) -> str:
    """The site of an IPv6 network as ``client_of`` writes it; any other client is a site of its own."""
    if ":" not in client:
        return client
    return str(ipaddress.ip_network(client).supernet(new_prefix=SITE))
