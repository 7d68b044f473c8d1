"""A system that starts no fresh interpreter."""

from __future__ import annotations

import errno
import socket

import pytest
from support.children import SECONDS
from support.descriptors import leaves_no_descriptor

from edgeserve.errors import Busy
from edgeserve.processes import interpreter
from edgeserve.processes.spawner import Spawner


def test_a_refused_process_is_busy_and_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: str, descriptors: list[int]) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(interpreter, "begin", refuse)

    def launch() -> None:
        with pytest.raises(Busy, match="no process for llm: Cannot allocate memory"):
            Spawner().launch("m:f", {}, "llm")

    leaves_no_descriptor(launch)


def test_a_child_whose_server_ended_before_the_task_ends_too() -> None:
    (ours, work), (lifeline, rope) = socket.socketpair(), socket.socketpair()
    with ours, work, rope:
        lifeline.close()
        with interpreter.begin("edgeserve.processes.start", [work.fileno(), rope.fileno()]) as process:
            assert process.wait(SECONDS) == 1
