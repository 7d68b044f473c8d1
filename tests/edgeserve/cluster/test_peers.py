"""Addresses of nodes as people write them."""

from __future__ import annotations

import pytest
from support.cases import each

from edgeserve.cluster.peers import Peer, read_peer, read_peers
from edgeserve.errors import ConfigError


@each(
    ("text", "peer"),
    [
        ("box2", Peer("box2", 8080)),
        ("Box2.lan:9000", Peer("box2.lan", 9000)),
        ("http://10.0.0.2:8080/", Peer("10.0.0.2", 8080)),
        ("https://box2:443", Peer("box2", 443, "https")),
        ("[fd00::2]:8080", Peer("[fd00::2]", 8080)),
        ("1a.2b", Peer("1a.2b", 8080)),
    ],
)
def test_addresses(text: str, peer: Peer) -> None:
    assert read_peer(text) == peer
    assert read_peer(peer.url) == peer


@each(
    "text",
    [
        *("", ":8080", "box:0", "box:65536", "box:x", "ftp://box", "http://box/path", "user@box", "box one", "-box"),
        *("[fd00::g]:1", "[10.0.0.1]:80", "box}", "box{env.HOME}", "box\nadmin", "a" * 300, "box:٣"),
        *("10.0.0.256", "10.0.0.2.1:80", "10.1", "8080"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no address of a node"):
        read_peer(text)


def test_a_node_comes_once() -> None:
    with pytest.raises(ConfigError, match="box:8080 is named twice"):
        read_peers(["box", "http://box:8080"])
    assert [one.port for one in read_peers(["box:1", "box:2"])] == [1, 2]
