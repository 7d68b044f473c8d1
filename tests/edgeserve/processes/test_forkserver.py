"""Imports of the fork server. Its loop is tested through ``forker`` and ``launcher``, in a process of its own."""

from __future__ import annotations

import os
import select
import socket
import sys
from pathlib import Path

import pytest
from support.children import SECONDS, linux

from edgeserve.processes import forkserver, interpreter


def test_imports_run_with_one_thread_for_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "preloaded_here.py").write_text("import os\nseen = {k: os.environ.get(k) for k in os.environ}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert forkserver.preload(["preloaded_here"]) == {}
    seen = sys.modules.pop("preloaded_here").seen
    assert (seen["OPENBLAS_NUM_THREADS"], seen["OMP_NUM_THREADS"]) == ("1", "3")
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_imports_that_fail_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_here.py").write_text("raise OSError('libgomp.so.1: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    failed = forkserver.preload(["broken_here", "json", "not_here"])
    assert failed == {
        "broken_here": "OSError: libgomp.so.1: cannot open",
        "not_here": "ModuleNotFoundError: No module named 'not_here'",
    }


@linux
def test_a_fork_server_whose_server_ended_first_ends_too() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.close()
        with interpreter.begin("edgeserve.processes.forkserver", [theirs.fileno()]) as process:
            assert process.wait(SECONDS) == 0


@linux
def test_a_fork_server_whose_answer_nobody_read_ends_too() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, interpreter.begin("edgeserve.processes.forkserver", [theirs.fileno()]) as process:
        ours.send(b'{"preload": []}')
        assert select.select([ours], [], [], SECONDS)[0], "it has answered"
        ours.close()
        assert process.wait(SECONDS) == 0
