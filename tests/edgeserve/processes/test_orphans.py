"""Zombies of a dead fork server, in a process that the kernel gives orphans to."""

from __future__ import annotations

import os

import psutil
import pytest
from support.children import linux, started_server

from edgeserve.processes import orphans
from edgeserve.processes.forker import Forker
from edgeserve.processes.orphans import Orphans

pytestmark = linux


@pytest.mark.parametrize(("pid", "adopts"), [(1, True), (2, False)])
def test_the_first_process_adopts_orphans(pid: int, adopts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert orphans.adopts() == adopts


def test_a_pid_that_is_no_child_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def wait(pid: int, flags: int) -> tuple[int, int]:
        asked.append(pid)
        raise ChildProcessError

    monkeypatch.setattr(orphans, "adopts", lambda: True)
    monkeypatch.setattr(os, "waitpid", wait)
    waiting = Orphans()
    waiting.add(1234)
    waiting.reap()
    waiting.reap()
    assert asked == [1234]


@pytest.mark.slow
def test_a_process_that_adopts_orphans_reaps_the_children_of_a_dead_fork_server() -> None:
    server, pids = started_server(Forker, "subreaper")
    with server:
        states = {psutil.Process(pid).status() for pid in pids}
        server.kill()
    assert len(pids) == 2, "a new fork server with one child"
    assert psutil.STATUS_ZOMBIE not in states
