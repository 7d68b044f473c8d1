"""Addresses outside the public network: IANA's registries of special-purpose addresses, and those of clouds.

https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

IPV4 = {
    "0.0.0.0/8": "this network, RFC 791",
    "10.0.0.0/8": "private use, RFC 1918",
    "100.64.0.0/10": "shared by carriers, RFC 6598; 100.100.100.200 is the metadata of Alibaba Cloud",
    "127.0.0.0/8": "loopback, RFC 1122",
    "168.63.129.16/32": "the host of a virtual machine of Azure",
    "169.254.0.0/16": "link-local, RFC 3927; 169.254.169.254 is the metadata of most clouds",
    "172.16.0.0/12": "private use, RFC 1918",
    "192.0.0.0/24": "IETF protocols, RFC 6890; 192.0.0.192 is the metadata of Oracle Cloud",
    "192.0.2.0/24": "documentation, RFC 5737",
    "192.31.196.0/24": "AS112, RFC 7535",
    "192.52.193.0/24": "automatic multicast tunnels, RFC 7450",
    "192.88.99.0/24": "relays of 6to4, RFC 7526",
    "192.168.0.0/16": "private use, RFC 1918",
    "192.175.48.0/24": "AS112, RFC 7534",
    "198.18.0.0/15": "benchmarks, RFC 2544",
    "198.51.100.0/24": "documentation, RFC 5737",
    "203.0.113.0/24": "documentation, RFC 5737",
    "224.0.0.0/4": "multicast, RFC 5771",
    "240.0.0.0/4": "reserved, RFC 1112; 255.255.255.255 is the broadcast, RFC 919",
}
IPV6 = {
    "2001::/23": "IETF protocols, RFC 2928: Teredo (RFC 4380), benchmarks (RFC 5180), ORCHID (RFC 7343), and others",
    "2001:db8::/32": "documentation, RFC 3849",
    "2002::/16": "6to4, RFC 3056",
    "2620:4f:8000::/48": "AS112, RFC 7534",
    "3fff::/20": "documentation, RFC 9637",
}
"""Within global unicast. Outside lie, among others, loopback and unspecified (::/128, ::1/128, RFC 4291), addresses
compatible with IPv4 (::/96, RFC 4291), local translation (64:ff9b:1::/48, RFC 8215), discard (100::/64, RFC 6666),
segment identifiers (5f00::/16, RFC 9602), unique local (fc00::/7, RFC 4193; fd00:ec2::254 is the metadata of AWS),
link-local (fe80::/10, RFC 4291), site-local (fec0::/10, RFC 3879) and multicast (ff00::/8, RFC 4291)."""
GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All of IPv6 that IANA allots to networks (RFC 4291, section 2.4)."""
EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96"))
"""Networks whose last 32 bits are an IPv4 address (RFC 6052, RFC 4291)."""
ISATAP = (0x00005EFE, 0x02005EFE)
"""Bits 64 to 95 of an address that tunnels to the IPv4 address in its last 32 bits (RFC 5214)."""

_SPECIAL_IPV4 = tuple(IPv4Network(one) for one in IPV4)
_SPECIAL_IPV6 = tuple(IPv6Network(one) for one in IPV6)


def is_public(address: Address) -> bool:
    """Whether the address belongs to the public network, and so does the IPv4 address that it embeds."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    number = int(address)
    if any(address in network for network in EMBEDDING):
        return is_public(IPv4Address(number & 0xFFFFFFFF))
    if number >> 32 & 0xFFFFFFFF in ISATAP or address.scope_id is not None:
        return False
    return address in GLOBAL_UNICAST and not any(address in network for network in _SPECIAL_IPV6)
