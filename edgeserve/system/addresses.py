"""Addresses of this machine in its networks."""

from __future__ import annotations

import ipaddress
import socket


def own_addresses() -> list[str]:
    """Addresses at which other machines may reach this one, IPv4 first. Loopback and link-local ones are left out."""
    import psutil  # for the few who ask

    families = (socket.AF_INET, socket.AF_INET6)
    each = (one for rows in psutil.net_if_addrs().values() for one in rows if one.family in families)
    found = {ipaddress.ip_address(one.address.partition("%")[0]) for one in each}
    reachable = (one for one in found if not (one.is_loopback or one.is_link_local or one.is_unspecified))
    return [str(one) for one in sorted(reachable, key=lambda one: (one.version, int(one)))]
