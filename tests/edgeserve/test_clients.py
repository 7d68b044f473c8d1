"""Clients: who counts as one, and the groups that they share."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.clients import NOBODY, Client, client_of, current


@each(
    ("peer", "client"),
    [
        ("127.0.0.1", "loopback"),
        ("127.44.0.9", "loopback"),  # a program on this machine has 16 million addresses
        ("::1", "loopback"),
        ("::ffff:127.0.0.2", "loopback"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("somewhere", "somewhere"),
    ],
)
def test_a_client_is_an_address_or_a_network(peer: str, client: str) -> None:
    assert client_of(peer) == client


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_an_ipv6_client_cannot_be_many(address: object, host: int) -> None:
    network = int(ipaddress.IPv6Address(str(address))) >> 64 << 64
    if network:
        assert client_of(str(ipaddress.IPv6Address(network | host))) == client_of(str(ipaddress.IPv6Address(network)))


def test_a_client_belongs_to_its_key_and_to_its_network() -> None:
    assert Client("k", "2001:db8::1").groups == (("k",), ("k", "2001:db8::/64"))
    assert Client("k", "10.0.0.1").groups == Client("k", "::ffff:10.0.0.1").groups
    assert Client("k", "10.0.0.1").groups != Client("k", "10.0.0.2").groups
    assert Client("", "10.0.0.1").groups == (("10.0.0.1",), ("", "10.0.0.1"))
    assert Client("k", "10.0.0.1").owner == Client("k", "10.0.0.2", sole=True).owner


def test_a_key_that_all_clients_have_tells_nobody_apart() -> None:
    """A household of one key never had the places that are kept for other keys."""
    for address, site in (("10.0.0.1", "10.0.0.1"), ("2001:db8:1:2::3", "2001:db8:1::/48")):
        assert Client("k", address, sole=True).groups == ((site,), Client("k", address).group)
    assert Client("k", "10.0.0.1", sole=True) == Client("k", "10.0.0.1"), "the client stays when another key comes"


@each(
    ("peer", "site"),
    [
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::3", "2001:db8:1::/48"),  # 65,536 networks of 64 bits are one home's or office's
        ("fe80::1%eth0", "fe80::/48"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "loopback"),
        ("", ""),
    ],
)
def test_without_keys_the_networks_of_one_site_share_a_turn(peer: str, site: str) -> None:
    assert Client("", peer).groups[0] == (site,)


def test_outside_of_a_request_there_is_no_client() -> None:
    assert current.get() is NOBODY
