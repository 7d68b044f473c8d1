"""Zombies of a dead fork server, in a process that the kernel gives orphans to."""

from __future__ import annotations

import psutil
import pytest
from support.children import started_server

from edgeserve.processes import orphans
from edgeserve.processes.forker import Forker
from edgeserve.processes.orphans import Orphans


def test_this_process_adopts_nobody() -> None:
    assert not orphans.adopts()


def test_a_pid_that_is_no_child_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(orphans, "adopts", lambda: True)
    monkeypatch.setattr(orphans.os, "waitpid", lambda pid, flags: asked.append(pid) or _no_child())
    waiting = Orphans()
    waiting.add(1234)
    waiting.reap()
    waiting.reap()
    assert asked == [1234]


def _no_child() -> tuple[int, int]:
    raise ChildProcessError


@pytest.mark.slow
def test_a_process_that_adopts_orphans_reaps_the_children_of_a_dead_fork_server() -> None:
    server, pids = started_server(Forker, "subreaper")
    with server:
        states = {psutil.Process(pid).status() for pid in pids}
        server.kill()
    assert len(pids) == 2, "a new fork server with one child"
    assert psutil.STATUS_ZOMBIE not in states
