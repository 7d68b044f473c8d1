"""The replica of a node, without Ray: the settings of its server."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from edgeserve.cluster.ray_node import NodeReplica
from edgeserve.config import ServerSettings
from edgeserve.connections import Connections

NAME = "EDGESERVE_MAX_CONNECTIONS"
KEPT, ASKED = 64, 8
"""Idle connections to a node that the door keeps, and those of the replica itself."""
TELLS = sys.executable, "-c", f"import os; print('http://', os.environ.get('{NAME}'), sep='', flush=True); input()"
"""A server whose address is its setting."""


@dataclass(eq=False)
class AtWork:
    """A connection whose request is under way."""

    peer: str

    def idle(self, now: float) -> None:
        return None

    def check(self, now: float) -> None:
        return None

    def cut(self) -> None:
        raise AssertionError("it is at work")


def most() -> int:
    """Connections that the server of a node takes."""
    replica = NodeReplica(command=TELLS)
    try:
        return int(replica._child.url.removeprefix("http://"))
    finally:
        replica._child.stop()


def test_a_node_has_a_place_for_each_client_of_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client of the door took all that a node has for one address: others, and Ray's health checks, had none."""
    monkeypatch.delenv(NAME, raising=False)
    node = Connections(most())
    for _ in range(ServerSettings().max_connections + KEPT + ASKED):
        assert node.admit(AtWork("10.0.0.1"))


def test_the_variable_sets_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "40")
    assert most() == 40
