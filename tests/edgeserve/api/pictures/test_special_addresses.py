"""Public and special addresses. The tests send nothing to them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from hypothesis import example, given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.api.pictures.special_addresses import IPV4, IPV6, is_public

CLOUDS = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.42.42",
    "169.254.0.23",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
]
"""Metadata of AWS, Azure, Google, Alibaba, Oracle, Scaleway and Tencent, and their hosts."""
OTHER = [
    "::1",
    "::",
    "::7f00:1",
    "::808:808",
    "64:ff9b:1::808:808",
    "100::1",
    "100:0:0:1::1",
    "5f00::1",
    "fc00::1",
    "fdff::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ff0e::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:1::1",
    "2001:2::1",
    "2001:3::1",
    "2001:4:112::1",
    "2001:10::1",
    "2001:20::1",
    "2001:30::1",
    "2606:4700::5efe:a00:1",
    "2606:4700::200:5efe:7f00:1",
    "4000::1",
    "8000::1",
    "255.255.255.255",
    "192.0.0.9",
    "192.0.0.10",
    "192.0.0.170",
    "1::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.215.14",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2001:200::",
    "2001:4860:4860::8888",
    "2a00:1450:4001::200e",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2600::",
]


def test_addresses_that_are_not_for_everybody() -> None:
    assert [text for text in [*CLOUDS, *OTHER] if is_public(ip_address(text))] == []


def test_addresses_beside_them() -> None:
    assert [text for text in PUBLIC if not is_public(ip_address(text))] == []


@each("text", IPV4)
def test_all_of_a_network_however_it_is_written(text: str) -> None:
    network = IPv4Network(text)
    for number in {int(network[0]), int(network[-1]), int(network[network.num_addresses // 2])}:
        assert not is_public(IPv4Address(number))
        for prefix in ("::ffff:0:0", "64:ff9b::", "::", "64:ff9b:1::"):
            assert not is_public(IPv6Address(int(IPv6Address(prefix)) | number))
        assert not is_public(IPv6Address((0x2002 << 112) | (number << 80)))  # 6to4
        assert not is_public(IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF)))  # Teredo


def test_all_of_an_ipv6_network() -> None:
    networks = [IPv6Network(text) for text in IPV6]
    assert [one for one in networks if is_public(one[0]) or is_public(one[-1])] == []


@given(st.integers(0, 2**32 - 1))
@example(int(IPv4Address("192.88.99.1")))
def test_nothing_that_python_calls_private_is_public(number: int) -> None:
    address = IPv4Address(number)
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert not is_public(address)
    assert is_public(IPv6Address((0xFFFF << 32) | number)) == is_public(address)


@given(st.integers(0, 2**128 - 1), st.sampled_from([0, 0x2001 << 112, 0xFC00 << 112, 0x2002 << 112, 0xFE80 << 112]))
def test_nothing_that_python_calls_private_is_public_in_ipv6(number: int, begin: int) -> None:
    address = IPv6Address(number >> 16 | begin if begin else number)
    if not address.is_global or address.is_multicast or address.is_reserved or address.sixtofour or address.teredo:
        assert not is_public(address) or address.ipv4_mapped
