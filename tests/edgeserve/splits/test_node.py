"""Addresses of machines: private ones alone."""

from __future__ import annotations

import pytest

from edgeserve.errors import EngineFailure
from edgeserve.splits.node import Node, is_private, read_node, resolve


@pytest.mark.parametrize(
    ("text", "node"),
    [("box2:50052", Node("box2", 50052)), ("10.0.0.2", Node("10.0.0.2")), ("box-2.local:9", Node("box-2.local", 9))],
)
def test_a_node_is_a_machine_and_a_port(text: str, node: Node) -> None:
    assert read_node(text) == node
    assert read_node(str(node)) == node


@pytest.mark.parametrize(
    "text", ["", ":50052", "box2:", "box2:0", "box2:65536", "http://box2", "[::1]:5", "box 2", "-x"]
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="box2:50052"):
        read_node(text)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.12", "169.254.1.1", "100.64.0.7"]
)
def test_private_addresses(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "0.1.2.3", "8.8.8.8", "172.32.0.1", "224.0.0.1", "255.255.255.255", "::1", "box2", ""]
)
def test_other_addresses(address: str) -> None:
    assert not is_private(address)


def test_a_node_resolves_to_its_address() -> None:
    assert resolve(Node("127.0.0.1", 7)) == "127.0.0.1:7"


@pytest.mark.parametrize(
    ("host", "words"), [("8.8.8.8", "a public address"), ("0.0.0.0", "public"), ("x.invalid", "no IPv4")]
)
def test_a_node_that_must_not_or_cannot_be_reached(host: str, words: str) -> None:
    with pytest.raises(EngineFailure, match=words):
        resolve(Node(host, 7))
