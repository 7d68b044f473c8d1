"""The address of a machine that holds layers: a private one, since the protocol has neither keys nor encryption."""

from __future__ import annotations

import ipaddress
import re
import socket

from edgeserve.dataclass import dataclass
from edgeserve.errors import Unreachable

PORT = 50052
MOST = 16
"""Machines of one model: GGML_RPC_MAX_SERVERS in llama.cpp's ggml-rpc.h."""
SHARED = "100.64.0.0/10"
"""Addresses of private networks over other ones, such as Tailscale's (RFC 6598)."""
WORDS = 'a machine and its port, such as "box2:50052"'


@dataclass(frozen=True, slots=True)
class Node:
    """A machine by its name or IPv4 address, and the port of its worker."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_node(text: str) -> Node:
    """The node of "host" or "host:port". Raises ValueError with the expected form."""
    found = re.fullmatch(r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))(?::([0-9]{1,5}))?", text)
    port = int(found[2] or PORT) if found else 0
    if found is None or not 1 <= port <= 65_535:
        raise ValueError(WORDS)
    return Node(found[1], port)


def is_private(address: str) -> bool:
    """Whether an IPv4 address is one of this machine alone, or of a private network."""
    try:
        found = ipaddress.IPv4Address(address)
    except ValueError:
        return False
    this, shared = ipaddress.ip_network("0.0.0.0/8"), ipaddress.ip_network(SHARED)
    if found.is_unspecified or found.is_multicast or found.is_reserved or found in this:
        return False
    return found.is_private or found in shared


def resolve(node: Node) -> str:
    """The node's IPv4 address and port, such as "10.0.0.2:50052". Raises Unreachable. Asks the system's resolver."""
    try:
        rows = socket.getaddrinfo(node.host, node.port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        text = f"no IPv4 address is known for {node.host} ({error.strerror})"
        raise Unreachable(f"{text}: write its address into nodes, such as 192.168.0.12:{node.port}") from None
    address = str(rows[0][4][0])
    if not is_private(address):
        text = "llama.cpp's protocol has neither keys nor encryption, and is for private networks alone"
        raise Unreachable(f"{node} is {address}, a public address: {text}")
    return f"{address}:{node.port}"
