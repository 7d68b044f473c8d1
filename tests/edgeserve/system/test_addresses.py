"""Addresses of this machine."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from edgeserve.system.addresses import own_addresses


def test_only_those_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(family: Any, address: str) -> Any:
        return SimpleNamespace(family=family, address=address)

    rows = {
        "lo": [row(socket.AF_INET, "127.0.0.1"), row(socket.AF_INET6, "::1")],
        "eth0": [
            row(socket.AF_INET6, "2001:db8::7"),
            row(socket.AF_INET6, "fe80::1%eth0"),
            row(socket.AF_INET, "192.168.1.20"),
            row(-1, "aa:bb:cc:dd:ee:ff"),
        ],
        "wlan0": [row(socket.AF_INET, "10.0.0.7"), row(socket.AF_INET, "192.168.1.20")],
    }
    monkeypatch.setattr("psutil.net_if_addrs", lambda: rows)
    assert own_addresses() == ["10.0.0.7", "192.168.1.20", "2001:db8::7"]


def test_this_machine_has_addresses_that_can_be_read() -> None:
    assert all(isinstance(one, str) for one in own_addresses())
